"""`virtlab image`: what virtual machines boot and containers hold: kept in the user's cache, never installed."""

from __future__ import annotations

from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from virtlab.terminal import say

app = typer.Typer(add_completion=False, no_args_is_help=True)


class Flavour(StrEnum):
    """Kernels that can be kept."""

    CLOUD = "cloud"
    GENERIC = "generic"
    XEN = "xen"
    ALL = "all"


@app.callback()
def image() -> None:
    """What virtual machines boot (a distribution's kernel, unpacked and not installed), and what containers hold.

    Example: virtlab image build --kernel cloud
    """


@app.command()
def build(
    *,
    kernel: Annotated[
        Flavour,
        typer.Option(
            help="cloud: small, virtio only; generic: also drivers of e1000 and e1000e; xen: the generic one "
            "with Xen's hypervisor and tools (experimental); all: cloud and generic"
        ),
    ] = Flavour.CLOUD,
    package: Annotated[
        list[Path] | None,
        typer.Option(
            help="a kernel package (.deb) to take instead of fetching one; may be repeated: one for each kernel of "
            "'all', in its order",
            exists=True,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Fetches the distribution's newest kernel package, keeps what guests need of it, and packs the agent beside it.

    Example: virtlab image build --kernel generic
    """
    from virtlab.errors import ExperimentError
    from virtlab.testbed.image import FLAVOURS, boot_image
    from virtlab.testbed.image import build as build_image

    flavours = list(FLAVOURS) if kernel is Flavour.ALL else [kernel.value]
    packages = [each.resolve() for each in package or ()]
    if packages and len(packages) != len(flavours):
        raise ExperimentError(
            "--package",
            f"names {len(packages)} for {len(flavours)} kernels ({', '.join(flavours)}), and a package holds one",
            "name one for each, in this order, or say which kernel with --kernel",
        )
    if kernel is Flavour.XEN:
        _build_xen(packages[0] if packages else None)
        return
    for flavour, given in zip_longest(flavours, packages):
        found = build_image(flavour, given, say)
        made = boot_image(flavour)
        size_mb = made.initramfs.stat().st_size / 1e6
        say(f"{flavour}: Linux {found.version} ({found.package}), initial file system {size_mb:.1f} MB")


def _build_xen(package: Path | None) -> None:
    from virtlab.testbed.image.xen import build_xen, xen_image

    found = build_xen(package, say)
    made = xen_image()
    size_mb = made.initramfs.stat().st_size / 1e6
    say(f"xen: {made.xen} with Linux {found.version} ({found.package}), initial file system {size_mb:.1f} MB")


@app.command(name="list")
def list_images() -> None:
    """Kernels of virtual machines and root file systems of containers in the cache.

    Example: virtlab image list
    """
    from virtlab.testbed.image import FLAVOURS, find, folder
    from virtlab.testbed.image.rootfs import list_rootfs

    say(f"in {folder()}:")
    for flavour, package in FLAVOURS.items():
        found = find(flavour)
        says = (
            f"Linux {found.version} ({found.package})" if found is not None else f"none; Debian's {package}"
        )
        say(f"  {flavour:<8} {says}")
    say(f"  xen      {_xen() or 'none; Debian has it as xen-hypervisor-VERSION-amd64'}")
    say(f"  containers: {', '.join(list_rootfs()) or 'only the bare root file system'}")


def _xen() -> str | None:
    from virtlab.testbed.image import find
    from virtlab.testbed.image.xen import package_kept

    package, kernel = package_kept(), find(Flavour.XEN)
    return None if package is None or kernel is None else f"{package}, Linux {kernel.version}"


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="what experiment files call it: 'image: NAME'")],
    source: Annotated[str, typer.Argument(help="a folder, a tar archive, podman:IMAGE or docker:IMAGE")],
) -> None:
    """Keeps a root file system for containers, in place of one of that name.

    Example: virtlab image add debian podman:docker.io/library/debian:12
    """
    from virtlab.testbed.image.rootfs import add_rootfs

    say(f"{name}: {add_rootfs(name, source)}")


@app.command()
def agent(
    *,
    output: Annotated[Path, typer.Option(help="the tar archive to write")] = Path("virtlab-agent.tar"),
) -> None:
    """Writes our agent with what starts it at boot (systemd, OpenRC, inittab), to put into a disk image of your own.

    Example: virtlab image agent --output virtlab-agent.tar
    """
    from virtlab.testbed.image import carried

    say(carried.instructions(carried.write(output)))


@app.command()
def remove(name: Annotated[str, typer.Argument(help="a name of `virtlab image list`")]) -> None:
    """Forgets a root file system.

    Example: virtlab image remove debian
    """
    from virtlab.testbed.image.rootfs import remove_rootfs

    remove_rootfs(name)
    say(f"{name} is gone")
