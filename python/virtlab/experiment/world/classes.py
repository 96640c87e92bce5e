"""Classes of a queue and the rules by which frames go to them, checked: a tree, rates that fit, a default.

A rule names a class and conditions that must all hold; the first rule that holds decides, and what satisfies none goes
to `default`. A class with children holds no packets itself. What could never hold is a mistake: ports of a protocol
without ports, an 802.1p priority above 7.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from virtlab.catalogue.kinds import DSCP, LIMIT, shown
from virtlab.catalogue.queueing import QueueDiscipline
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.leaves import NAME
from virtlab.units import nearest

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132}
WITH_PORTS = (6, 17, 132)
CONDITIONS = ("dscp", "pcp", "protocol", "from", "to", "from_port", "to_port", "flow")


def read_classes(
    at: Steps, written: dict[str, Any], discipline: QueueDiscipline, findings: Findings
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]], str | None]:
    """Classes by name, rules in order, the default: as the Plan has them."""
    if not isinstance(written["classes"], dict) or not written["classes"]:
        findings.add((*at, "classes"), "names no class", "write e.g. '{voice: {}, rest: {}}'")
        return {}, [], None
    classes: dict[str, dict[str, Any]] = {}
    for name, entry in written["classes"].items():
        if not NAME.match(str(name)) or not isinstance(entry or {}, dict):
            findings.add((*at, "classes", name), "is not a class", "write e.g. 'voice: {limit: 100 packets}'")
            continue
        classes[name] = _class((*at, "classes", name), entry or {}, discipline, findings)
    _tree(at, classes, discipline, findings)
    above = {entry.get("parent") for entry in classes.values()}
    leaves = [name for name in classes if name not in above]
    rules = _rules(at, written.get("match"), leaves, findings)
    default = written.get("default")
    if default is None:
        cure = f"write e.g. 'default: {leaves[-1]}'" if leaves else "name one"
        findings.add(at, "'default' is missing: frames that match no rule have no class", cure)
    elif default not in leaves:
        cure = nearest(str(default), leaves) or f"there are {', '.join(leaves)}"
        findings.add((*at, "default"), f"there is no class '{shown(default)}' without children", cure)
    return classes, rules, default


def _class(
    at: Steps, entry: dict[str, Any], discipline: QueueDiscipline, findings: Findings
) -> dict[str, Any]:
    known = {parameter.name: parameter for parameter in discipline.classes}
    made: dict[str, Any] = {"parameters": {}}
    for key, value in entry.items():
        try:
            if key == "limit":
                name, number = LIMIT.parse(value)
                if name != "limit_packets":
                    raise ValueError("the limit of a class is a number of packets; write it in packets")
                made[name] = number
            elif key == "parent" and discipline.tree:
                made["parent"] = value
            elif key in known:
                made["parameters"] |= known[key].plan_values(value)
            else:
                words = ["limit", *(["parent"] if discipline.tree else []), *known]
                cure = nearest(str(key), words) or f"it has {', '.join(words)}"
                findings.add(
                    (*at, key), f"'{shown(key)}' is not a key of a {discipline.name} class", cure, key=True
                )
        except ValueError as error:
            findings.add_text((*at, key), str(error))
    for parameter in discipline.classes:
        if parameter.required and parameter.name not in entry:
            cure = f"write e.g. '{parameter.name}: {parameter.kind.example}'"
            findings.add(at, f"'{parameter.name}' of the class is missing", cure)
    return made


def _tree(
    at: Steps, classes: dict[str, dict[str, Any]], discipline: QueueDiscipline, findings: Findings
) -> None:
    sums: dict[str, int] = {}
    for name, entry in classes.items():
        path: Steps = (*at, "classes", name)
        parent = entry.get("parent")
        if parent is not None and parent not in classes:
            cure = nearest(str(parent), classes) or f"there are {', '.join(classes)}"
            findings.add((*path, "parent"), f"there is no class '{shown(parent)}'", cure)
            continue
        seen, above = {name}, parent
        while above is not None and above in classes:
            if above in seen:
                findings.add((*path, "parent"), "its ancestors go in a circle", "give one of them no parent")
                break
            seen.add(above)
            above = classes[above].get("parent")
        rate = entry["parameters"].get("rate_bit_per_s")
        ceil = entry["parameters"].get("ceil_bit_per_s", rate)
        if not discipline.guarantees or rate is None:
            continue
        if ceil < rate:
            findings.add((*path, "ceil"), "the ceiling is below the rate", "write at least the rate")
        if parent is not None:
            sums[parent] = sums.get(parent, 0) + rate
    for parent, total in sums.items():
        own = classes[parent]["parameters"].get("rate_bit_per_s")
        if own is not None and total > own:
            what = f"the rates of its children add up to {total} bit/s, above its own {own} bit/s"
            findings.add((*at, "classes", parent), what, "lower theirs, or raise its rate")


def _rules(at: Steps, written: Any, leaves: list[str], findings: Findings) -> list[dict[str, Any]]:
    if written is None:
        return []
    if not isinstance(written, list):
        findings.add((*at, "match"), "is not a list of rules", "write e.g. '[{class: voice, dscp: EF}]'")
        return []
    rules = []
    for position, entry in enumerate(written):
        path: Steps = (*at, "match", position)
        if not isinstance(entry, dict):
            findings.add(path, "is not a rule", "write e.g. '{class: voice, dscp: EF}'")
            continue
        if entry.get("class") not in leaves:
            cure = nearest(str(entry.get("class")), leaves) or f"there are {', '.join(leaves)}"
            findings.add(path, f"there is no class '{shown(entry.get('class'))}' without children", cure)
        rule: dict[str, Any] = {"class": entry.get("class")}
        for key, value in entry.items():
            try:
                if key in CONDITIONS:
                    rule |= _condition(key, value)
                elif key != "class":
                    cure = nearest(str(key), CONDITIONS) or f"there are {', '.join(CONDITIONS)}"
                    findings.add((*path, key), f"'{shown(key)}' is nothing to match", cure, key=True)
            except ValueError as error:
                findings.add_text((*path, key), str(error))
        ports = "source_port" in rule or "destination_port" in rule
        if ports and rule.get("protocol") not in (None, *WITH_PORTS):
            findings.add(path, "the protocol has no ports", "write 'protocol: udp' or 'protocol: tcp'")
        rules.append(rule)
    return rules


def _condition(key: str, value: Any) -> dict[str, Any]:
    """One condition by its Plan name. ValueError("WHAT; CURE")."""
    match key:
        case "dscp":
            return {
                "dscp": tuple(DSCP.parse(each) for each in (value if isinstance(value, list) else [value]))
            }
        case "pcp":
            found = value if isinstance(value, list) else [value]
            if not all(isinstance(each, int) and 0 <= each <= 7 for each in found):
                raise ValueError(f"'{shown(value)}' is not an 802.1p priority; write 0 to 7")
            return {"pcp": tuple(found)}
        case "protocol":
            number = PROTOCOLS.get(value, value) if isinstance(value, str) else value
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 255:
                raise ValueError(
                    f"'{shown(value)}' is not an IP protocol; write {', '.join(PROTOCOLS)} or 0 to 255"
                )
            return {"protocol": number}
        case "from" | "to":
            try:
                network = ipaddress.ip_network(value if isinstance(value, str) else "", strict=False)
            except ValueError:
                raise ValueError(f"'{shown(value)}' is not a network; write e.g. '10.0.0.0/24'") from None
            return {"source" if key == "from" else "destination": str(network)}
        case "flow":
            found_share = re.fullmatch(r"([1-9][0-9]*) of ([1-9][0-9]*)", str(value))
            if found_share is None or int(found_share[1]) > int(found_share[2]):
                raise ValueError(f"'{shown(value)}' is not a share of the flows; write e.g. '1 of 4'")
            return {"flow": (int(found_share[1]) - 1, int(found_share[2]))}
        case _:
            span = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", str(value))
            low, high = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
            if not low <= high <= 65_535:
                raise ValueError(f"'{shown(value)}' does not name ports; write e.g. 5004 or '5004-5010'")
            name = "source_port" if key == "from_port" else "destination_port"
            return {name: (low, high)}
