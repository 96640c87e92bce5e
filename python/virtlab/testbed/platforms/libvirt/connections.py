"""Which connection of libvirt a file means: a local daemon by its URI, any other by a name of the user's own settings.

A URI can name programs to run and files to read (`qemu+ext:///system?command=...`), hosts to log in to, sockets to
connect to. So a file has only those without any of that, and the user says what else there is.
"""

from __future__ import annotations

from virtlab.catalogue.platforms.libvirt import LOCAL
from virtlab.errors import MachineError
from virtlab.settings import load_trusted


def uri_of(where: str, named: str) -> str:
    """The URI that a Plan's `hypervisor` stands for. MachineError when the user's settings have no such name."""
    if LOCAL.match(named):
        return named
    known = load_trusted().hypervisors
    if named not in known:
        what = f"'{named}' is not a local daemon's URI, and no name of [hypervisors] in your settings"
        there = f"there are {', '.join(sorted(known))}; " if known else ""
        cure = f"{there}write e.g. 'qemu:///system', or name the URI in your settings file"
        raise MachineError(f"{where}.hypervisor", what, cure)
    return known[named]
