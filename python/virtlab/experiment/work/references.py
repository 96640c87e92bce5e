"""Do the guests, services and ports exist that the words of a file's commands refer to?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from virtlab.catalogue.references import ADDRESS, PORT, referred
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.units import nearest


def check_references(
    at: Steps,
    words: Sequence[str],
    ends: Sequence[str],
    guests: Collection[str] | None,
    ports: Iterable[tuple[str, bool]],
    findings: Findings,
    key: str | None = None,
) -> None:
    """Adds a mistake for each reference to something that there is not. `guests`: None where they are unknown; `ports`:
    the services, and whether each has one; `key`: of a mapping, where `words` are its one text there.
    """
    services = dict(ports)
    for place, reference in referred(words, ends):
        name, _, word = reference.partition(".")
        if reference in ends or guests is None or reference in guests:
            continue
        if name in services:
            if word == PORT and not services[name]:
                what, cure = f"'{name}' has no port", "say the 'port' in its 'ready'"
            elif word in {ADDRESS, PORT}:
                continue
            else:
                what, cure = f"a service has no '{word}'", f"write {{{name}.{ADDRESS}}} or {{{name}.{PORT}}}"
        elif findings.declares("services", name):
            continue  # its own mistake says what to mend
        else:
            known = [*ends, *guests, *(f"{each}.{of}" for each in services for of in (ADDRESS, PORT))]
            what = f"there is no guest '{reference}'"
            cure = nearest(reference, known) or f"name a guest of the file, or an end: {{{ends[0]}}}"
        findings.add((*at, place if key is None else key), what, cure)
