"""`namespace`: a guest is a network namespace of the private world, with vNICs on the host's virtual switch."""

from virtlab.catalogue.declaration import Platform

NAMESPACE = Platform(
    name="namespace",
    meaning="a network namespace with its own network stack",
    guests_max=None,
    vswitch=True,
    limits=("cpu", "memory"),
)
