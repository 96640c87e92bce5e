"""From a file to an `Experiment`: every mistake of the file is found, then all are raised at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.kinds import COUNT, shown
from virtlab.documents import read_bytes
from virtlab.experiment.declared import check_declared, read_declared
from virtlab.experiment.expectations import Measuring, check_until, read_claims
from virtlab.experiment.experiment import (
    DATASET_NAME,
    MAXIMUM_WITH_UNTIL,
    RUNS_MAX,
    Experiment,
    Repeat,
    Until,
)
from virtlab.experiment.read.brought import read_brought, with_brought
from virtlab.experiment.read.factors import (
    Design,
    Factor,
    check_references,
    read_exclusions,
    read_factors,
    references,
)
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.read.mistakes import FileMistakesError, Mistake, Mistakes
from virtlab.experiment.read.model import RepeatSpec
from virtlab.experiment.read.sections import validated
from virtlab.experiment.read.traces import read_traces, with_traces
from virtlab.experiment.read.tree import FILE_MAX_BYTES, Node, read_tree
from virtlab.experiment.resolver import RESOLVED, VALUES_MAX, Resolver
from virtlab.metrics import Declared
from virtlab.units import nearest, show_count

VERSION = 1
PLAIN = (
    "version",
    "name",
    "title",
    "seed",
    "repeat",
    "claims",
    "factors",
    "exclude",
    "traces",
    "brought",
)  # cannot vary
SEED_MAX = 2**53
COMPARISONS_MAX = 4_000_000  # of design points with exclusions


def load(path: Path | str, *, runs_max: int | None = RUNS_MAX) -> Experiment:
    """The experiment of a file. FileMistakesError with every mistake; ExperimentError when it cannot be read.

    `runs_max` bounds the number of runs (None: no bound).
    """
    path = Path(path)
    most = 4 * FILE_MAX_BYTES  # of letters that take four each
    content = read_bytes(path, missing="write one with 'virtlab init'", largest_bytes=most)
    return load_bytes(content, name=str(path), runs_max=runs_max, folder=path.parent)


def load_bytes(
    content: bytes,
    *,
    name: str = "experiment.yaml",
    runs_max: int | None = RUNS_MAX,
    folder: Path | None = None,
) -> Experiment:
    """The experiment of a file's bytes; they must be UTF-8. What it names beside it is read from the folder."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        mistake = Mistake(line, column, "", "the file is not valid UTF-8 text", "save it as UTF-8")
        raise FileMistakesError(name, [mistake]) from None
    return load_text(text, name=name, runs_max=runs_max, folder=folder)


def load_text(
    text: str,
    *,
    name: str = "experiment.yaml",
    runs_max: int | None = RUNS_MAX,
    folder: Path | None = None,
) -> Experiment:
    """The experiment of a file's text; `name` is what mistakes call the file. What lies beside
    it is read from the folder, or held by the text."""
    mistakes = Mistakes()
    root = read_tree(text, mistakes)
    if folder is not None and root is not None and not len(mistakes):
        for completed in (with_traces, with_brought):
            whole = completed(text, root, folder, name) if root is not None else text
            if whole is not text:
                text, root = whole, read_tree(whole, mistakes)
    experiment = _experiment(root, text, mistakes, runs_max) if root is not None else None
    if len(mistakes) or experiment is None:
        raise FileMistakesError(name, mistakes)
    return experiment


def _experiment(root: Node, text: str, mistakes: Mistakes, runs_max: int | None) -> Experiment | None:
    if not isinstance(root.value, dict):
        what = f"'{shown(root.plain())}' is not an experiment"
        mistakes.add(Mistake(root.line, root.column, "", what, "begin with 'version: 1'; see 'virtlab init'"))
        return None
    findings = Findings(root, mistakes)
    mistakes.settle()
    factors = _factors(root, RESOLVED, mistakes)
    exclusions = read_exclusions(root.get("exclude"), factors, mistakes)
    _check_keys(root, (*PLAIN, *RESOLVED), findings)
    name, title, seed = _heading(root, findings)
    _check_plain(root, findings)
    _check_unused(root, factors, findings)
    declared, mistaken = read_declared(findings)
    repeat = _repeat(findings, declared)
    traces, brought = read_traces(findings), read_brought(findings)
    design = Design(factors, exclusions)
    resolver = Resolver(root, factors, traces, brought, mistakes)
    parts, places = dict[str, set[str]](), set[str]()
    if not _too_large(design, resolver, findings) and not _too_many(design, repeat, runs_max, findings):
        parts, places = _resolve_all(resolver, design, root, findings, declared)
    roles = _role_names(root)
    # A dataset stays readable whatever its claims are about: what it does not have is undecided.
    known = None if runs_max is None or len(mistakes) else places
    claims = read_claims(findings, factors, Measuring(roles, parts, known), declared, mistaken)
    check_until(repeat, roles, mistaken, findings)
    return Experiment(
        name=name, title=title or name, text=text, seed=seed, design=design, repeat=repeat, claims=claims,
        declared=declared, resolver=Resolver(root, factors, traces, brought, mistakes),
    )  # fmt: skip


def _factors(root: Node, sections: tuple[str, ...], mistakes: Mistakes) -> dict[str, Factor]:
    """The factors, with every reference to them checked."""
    factors = read_factors(root.get("factors"), mistakes)
    declared = root.get("factors")
    wrong = (
        set(declared.value) - set(factors)
        if declared is not None and isinstance(declared.value, dict)
        else set()
    )
    known = {
        **factors,
        **{word: Factor(word, {}, 1, 1) for word in wrong},
    }  # these were reported at their declaration
    for section in sections:
        node = root.get(section)
        if node is None:
            continue
        check_references(node, section, known, mistakes)
        for _, leaf in node.walk(section):
            if references(leaf) & wrong:
                mistakes.settle_at(leaf.line, leaf.column)
    mistakes.settle()
    return factors


def _role_names(root: Node) -> dict[str, str]:
    """Roles with their workloads as the file writes them; '' where the workload varies or is wrong."""
    node = root.get("roles")
    roles = {}
    for name, entry in node.value.items() if node is not None and isinstance(node.value, dict) else ():
        workload = entry.get("workload")
        written = workload.value if workload is not None else None
        roles[name] = written if isinstance(written, str) and written in WORKLOADS else ""
    return roles


def _check_keys(root: Node, known: tuple[str, ...], findings: Findings) -> None:
    assert isinstance(root.value, dict)
    for key in root.value:
        if key not in known:
            cure = nearest(key, known) or f"known here: {', '.join(known)}"
            findings.add((key,), f"unknown key '{shown(key)}'", cure, key=True)


def _heading(root: Node, findings: Findings) -> tuple[str, str, int]:
    version = root.get("version")
    if version is None:
        findings.add((), "'version' is missing", "begin the file with 'version: 1'")
    elif version.value != VERSION or isinstance(version.value, bool):
        what = f"version '{shown(version.plain())}' is not known to this program"
        findings.add(("version",), what, "write 'version: 1', or take a newer virtlab")
    name = root.get("name")
    if name is None:
        findings.add((), "'name' is missing", "write e.g. 'name: my-study'; it names the folder of results")
    elif not isinstance(name.value, str) or not DATASET_NAME.match(name.value):
        findings.add(
            ("name",),
            f"'{shown(name.plain())}' is not a valid name",
            "use lower-case letters, digits and '-'",
        )
    title = root.get("title")
    if title is not None and (not isinstance(title.value, str) or not title.value.strip()):
        findings.add(("title",), f"'{shown(title.plain())}' is not a title", "write a line of text")
    seed = root.get("seed")
    if seed is not None and (
        isinstance(seed.value, bool) or not isinstance(seed.value, int) or not 0 <= seed.value < SEED_MAX
    ):
        findings.add(
            ("seed",),
            f"'{shown(seed.plain())}' is not a seed",
            f"write a whole number from 0 to {SEED_MAX - 1}",
        )
    return (
        str(name.value) if name is not None else "",
        " ".join(str(title.value).split()) if title is not None else "",
        seed.value if seed is not None and isinstance(seed.value, int) else 1,
    )


def _check_plain(root: Node, findings: Findings) -> None:
    """Sections that cannot vary hold no reference."""
    for section in ("version", "name", "title", "seed", "repeat", "exclude", "traces", "brought"):
        node = root.get(section)
        if node is not None and references(node):
            findings.add((section,), "cannot vary with a factor", "write the value")


def _check_unused(root: Node, factors: Mapping[str, Factor], findings: Findings) -> None:
    assert isinstance(root.value, dict)
    used = {name for section, node in root.value.items() if section not in PLAIN for name in references(node)}
    misspelt = {nearest(name, factors) for name in used if name not in factors}
    for name in factors:
        if name not in used and f"did you mean '{name}'?" not in misspelt:
            findings.add(
                ("factors", name),
                f"nothing uses the factor '{name}'",
                f'write "${{{name}}}" where it matters, or remove it',
                key=True,
            )


def _repeat(findings: Findings, declared: Declared) -> Repeat:
    node = findings.root.get("repeat")
    if node is None or node.value is None:
        return Repeat()
    if not isinstance(node.value, dict):
        try:
            times = COUNT.parse(node.plain())
        except ValueError:
            findings.add(
                ("repeat",),
                f"'{shown(node.plain())}' is not a repetition",
                "write e.g. 3, or '{minimum: 3, maximum: 10}'",
            )
            return Repeat()
        return Repeat(times, times)
    spec: RepeatSpec | None = validated(("repeat",), node.plain(), RepeatSpec, findings, adapter="repeat")
    if spec is None:
        return Repeat()
    maximum = spec.maximum or (max(MAXIMUM_WITH_UNTIL, spec.minimum) if spec.until else spec.minimum)
    if maximum < spec.minimum:
        findings.add(
            ("repeat", "maximum"), f"{maximum} is less than the minimum {spec.minimum}", "exchange them"
        )
    if spec.until is None and maximum > spec.minimum:
        cure = "add 'until: {metric: probe.rtt.mean, relative_interval: 5 %}', or remove 'maximum'"
        findings.add(
            ("repeat", "maximum"), "nothing says when to stop between minimum and maximum", cure, key=True
        )
    until = Until(spec.until.metric, spec.until.relative_interval, declared) if spec.until else None
    return Repeat(spec.minimum, maximum, until, spec.time, spec.confidence)


def _too_many(design: Design, repeat: Repeat, runs_max: int | None, findings: Findings) -> bool:
    """Whether the matrix is beyond the bound; its size is counted with exclusions only when it is not far beyond."""
    if runs_max is None:
        return False
    size = design.size_before_exclusions()
    if design.exclusions and size <= 20 * runs_max and size * len(design.exclusions) <= COMPARISONS_MAX:
        size = sum(1 for _ in design.combinations())
    runs = size * repeat.minimum
    if runs <= runs_max:
        return False
    what = f"{show_count(size)} design points make {show_count(runs)} runs, more than {show_count(runs_max)}"
    findings.add(
        ("factors",), what, "take fewer levels, exclude combinations, or say --yes when it is meant", key=True
    )
    return True


def _too_large(design: Design, resolver: Resolver, findings: Findings) -> bool:
    """Whether it is known before any point is looked at that a file describes more than it may."""
    if design.size_before_exclusions() * len(design.exclusions) > COMPARISONS_MAX:
        what = f"{show_count(len(design.exclusions))} exclusions of so many design points are too many to compare"
        findings.add(("exclude",), what, "exclude several levels at once, or take fewer levels", key=True)
        return True
    if design.exclusions or resolver.values() <= VALUES_MAX:
        return False
    _refuse_values(findings)
    return True


def _refuse_values(findings: Findings) -> None:
    what = f"the sections of its design points have more than {show_count(VALUES_MAX)} values together"
    findings.add(("factors",), what, "take fewer levels, or shorter sections that refer to them", key=True)


def _resolve_all(
    resolver: Resolver, design: Design, root: Node, findings: Findings, declared: Declared
) -> tuple[dict[str, set[str]], set[str]]:
    """Resolves every point; what only all points together show is checked after.

    Returns the names of parts that roles have at any point, of roles whose workload names them, and the places of the
    world at any point.
    """
    parts: dict[str, set[str]] = {}
    places: set[str] = set()
    seen: set[str] = set()
    reached = active = False
    for point in design.combinations():
        reached = True
        study = resolver.resolve(point)
        if resolver.exhausted:
            if resolver.too_large:
                _refuse_values(findings)
            return {}, set()
        if study is None:
            continue
        seen |= set(study.wiring.cables) | set(study.wiring.switches) | set(study.wiring.routers)
        places |= study.wiring.places()
        active = active or any(role.active for role in study.roles.values())
        check_declared(study.roles, declared, findings)
        for name, role in study.roles.items():
            if (rows := WORKLOADS[role.workload].part_rows) is not None:
                parts.setdefault(name, set()).update(rows(role.parameters))
    if not reached:
        findings.add(("exclude",), "the exclusions leave no design point", "exclude less", key=True)
    elif not len(findings.mistakes):
        _check_described(root, seen, findings)
        if not _role_names(root):
            findings.add(
                (),
                "no role measures anything",
                "add e.g. 'roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}'",
            )
        elif not active:
            findings.add(("roles",), "every role is switched off at every point", "enable one", key=True)
    return ({}, set()) if len(findings.mistakes) else (parts, places)


def _check_described(root: Node, seen: set[str], findings: Findings) -> None:
    """An entry of links, switches or routers describes something that some design point has."""
    for section, one in (("links", "link"), ("switches", "switch"), ("routers", "router")):
        node = root.get(section)
        if node is None or not isinstance(node.value, dict):
            continue
        for name in node.value:
            if name not in seen:
                alike = sorted(other for other in seen if ("-" in other) is (section == "links"))
                cure = nearest(name, alike) or f"there are {', '.join(alike[:8])}"
                findings.add((section, name), f"no design point has a {one} '{shown(name)}'", cure, key=True)
