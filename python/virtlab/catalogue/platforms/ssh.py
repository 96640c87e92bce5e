"""`ssh`: a host or guest that exists already, on whatever platform; our agent is brought there over ssh and removed
again.

Nothing is made or changed there: roles use its own interface and addresses, or (where the file says so) a VXLAN between
such hosts.
"""

from virtlab.catalogue.declaration import Features, Platform

SSH = Platform(
    name="ssh",
    meaning="a Linux host or guest that exists already, reached by ssh: Proxmox, ESXi, Hyper-V, bare metal",
    guests_max=1,
    vswitch=False,
    pushback="guest",  # its port is the wire's
    limits=(),
    features=Features(
        type="whatever is there",
        virtualisation=("whatever is there",),
        own_kernel=True,
        migration="not ours",
        snapshots="not ours",
        licence="that of what is there",
    ),
    existing=True,
    reset=None,
    arms={"testbed": None, "simulator": "what an existing host costs is unknown until it is measured"},
)
