"""Who queues on a host that does not say: its guests share the queue of its wire, as guests share a network card.

| of | says `uplink` |
|---|---|
| a platform, a kind of virtual switch | by the trait `pushback` of its declaration |
| a queue | if it is a FIFO in front of a link: any other discipline would stand behind the host's, and never queue |
| a host with guests of its own behind a virtual switch with a wire | if all of these do |

A file has one default. Where one of its design points has something that says `guest`, all have `guest`: otherwise the
factor that puts it there would change who queues as well. A host without such guests is not asked, and has `guest`:
there its frames wait in front of the wire in the link's own queue, or at the one port that is the wire's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from virtlab.catalogue import PLATFORMS, QDISCS, VSWITCHES
from virtlab.catalogue.declaration import Pushback
from virtlab.experiment import Experiment, Study
from virtlab.experiment.world.topology import Station
from virtlab.plan import Plan


def default_pushback(experiment: Experiment) -> Pushback:
    """What hosts of the file have that say nothing; kept."""
    if experiment.pushback is None:
        studies = {id(study): study for study in map(experiment.study, experiment.points())}
        experiment.pushback = "uplink" if all(map(_may_share, studies.values())) else "guest"
    return experiment.pushback


def keep_pushback(experiment: Experiment, finished: Iterable[tuple[int, Plan]]) -> None:
    """Gives the file's hosts that say nothing what they had when its dataset was begun: of finished runs, by point.

    Before there was a choice it was `guest`, and so say the Plans of those runs.
    """
    points = experiment.points()
    for index, plan in finished:
        study = experiment.study(points[index]) if index < len(points) else None
        for host in _silent_hosts(study) if study is not None else ():
            if host in plan.world.hosts:
                had = plan.world.hosts[host].pushback
                experiment.pushback = "uplink" if had == "uplink" else "guest"
                return


def pushback_of(study: Study, host: str, default: str) -> str:
    """Where frames wait for a host's wire. A guest on the port itself is its host's only one, and shares nothing."""
    said = study.wiring.hosts[host].pushback
    if said is None:
        return default if _senders(study, host) else "guest"
    bridges = any(each.host == host and each.uplinks for each in study.wiring.bridges.values())
    return "guest" if said == "uplink" and not bridges else said


def _may_share(study: Study) -> bool:
    asked = list(_silent_hosts(study))
    kinds = {each.kind for each in study.wiring.bridges.values() if each.host in asked}
    platforms = {station.platform for host in asked for station in _senders(study, host)}
    queues = [queue for both in study.queues.values() for queue in both]
    return not asked or (
        all(VSWITCHES[kind].pushback == "uplink" for kind in kinds)
        and all(PLATFORMS[platform].pushback == "uplink" for platform in platforms)
        and all(QDISCS[queue.kind].tail_drop for queue in queues)
        and not study.port_queues
    )


def _silent_hosts(study: Study) -> Iterator[str]:
    """Hosts that say nothing, and have guests that could share."""
    for name, host in study.wiring.hosts.items():
        if host.pushback is None and _senders(study, name):
            yield name


def _senders(study: Study, host: str) -> list[Station]:
    """Guests of a host that send frames of their own over a virtual switch to a wire."""
    wired = {name for name, bridge in study.wiring.bridges.items() if bridge.host == host and bridge.uplinks}
    return [
        station
        for station in study.wiring.stations.values()
        if station.host == host
        and not (station.forwards or station.bridges)
        and any(each.vswitch in wired for each in station.vnics.values())
    ]
