"""What this machine can and cannot do, each found by trying it, each with its cure.

`examine()` goes from what needs nothing to what needs most: programs, processors, namespaces, disciplines, and last a
small testbed that is built and measured. One area a file; a finding never hides behind the failure of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from virtlab.testbed.build.machine import fingerprint
from virtlab.testbed.doctor import containers, disciplines, network, noise, processor, programs, switch, world
from virtlab.testbed.finding import Examination, Finding, State
from virtlab.testbed.platforms.qemu import kvm

__all__ = ["Examination", "Finding", "State", "examine"]


def examine(
    *, self_test: bool = True, progress: Callable[[str], None] = lambda _group: None, why_not: str = ""
) -> Examination:
    """Examines this machine for this user. Leaves nothing behind; takes about ten seconds.

    `self_test` builds a small testbed for three seconds; without it `why_not` says why. `progress` gets what is
    tried.
    """
    found: list[Finding] = []
    for what, area in _areas():
        progress(what)
        found.extend(area())
    if self_test:
        progress("containers")
        found.extend(containers.examine())
        progress("the noise floor")
        found.extend(noise.examine())
        progress("the soft switch")
        found.extend(switch.examine())
    else:
        found.append(Finding("noise.switched", "noise floor", "untried", why_not or "not requested"))
    return Examination(fingerprint(), tuple(found))


def _areas() -> Iterator[tuple[str, Callable[[], Iterator[Finding]]]]:
    yield "the private world", world.examine
    yield "queue disciplines", disciplines.examine
    yield "network", network.examine
    yield "processors and time", processor.examine
    yield "virtual machines", kvm.examine
    yield "programs", programs.examine
