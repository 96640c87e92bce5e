"""podman as the runtime of a container: it makes bundle, limits and system call filter by its user's configuration.

What people who use podman measure is its container: the capabilities, the seccomp filter, the limits, the OCI
runtime that their `containers.conf` says. So nothing of that is set here but what a guest needs. podman has no
daemon: its monitor and the container are descendants of PID 1 of the private world, and all that it writes lies on
the world's own tmpfs, so both end with the world. Its locks are in /dev/shm, of which the world gets one of its
own; the state of the OCI runtime, which would be in /run, is given its place. What does not end with the world is
the control group below the one that we name.

The container stays in the network that podman is started in (`--network host`): the guest's, with its vNICs.
Source: podman-run(1) of podman 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from virtlab.catalogue.disks import FOLDER as DISK
from virtlab.testbed.platforms.container.bundle import AGENT, CONTROL_FD, Bundle

FOLDER = "podman"
GROUP_PREFIX = "libpod-"  # of the control group that it makes below ours
# Powers that probes need beyond those that podman gives by default.
POWERS = ("CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_NICE", "CAP_IPC_LOCK")


def prepared(place: str) -> str:
    """A shell's words before it is called: folders for what it writes, and shared memory of the world's own."""
    folders = " ".join(f"{place}/{FOLDER}/{name}" for name in ("store", "run", "scratch", "network", "state"))
    return f"mkdir -p {folders} && mount -t tmpfs -o mode=1777 virtlab /dev/shm"


def base(path: str, place: str) -> list[str]:
    """The words that every call begins with: where it keeps what it knows."""
    home = f"{place}/{FOLDER}"
    return [
        path, "--root", f"{home}/store", "--runroot", f"{home}/run", "--tmpdir", f"{home}/scratch",
        "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "none",
        "--network-config-dir", f"{home}/network", "--runtime-flag", f"root={home}/state",
    ]  # fmt: skip


def run(path: str, place: str, number: int, bundle: Bundle) -> list[str]:
    """The command that runs a container in the foreground, with the control stream as descriptor 3."""
    argv = [
        *base(path, place), "run", "--name", name(number), "--hostname", bundle.guest, "--network", "host",
        "--no-hosts", "--dns", "none", "--log-driver", "none", "--sdnotify", "ignore", "--systemd", "false",
        "--preserve-fds", "1", "--ulimit", "host", "--env", "HOME=/root",
    ]  # fmt: skip
    for power in POWERS:
        if bundle.capabilities is None or power in bundle.capabilities:
            argv += ["--cap-add", power]
    argv += ["--volume", f"{bundle.agent}:{AGENT}:ro"]
    if bundle.image is None and bundle.busybox is not None:
        argv += ["--volume", f"{bundle.busybox}:/bin/busybox:ro"]
    if bundle.disk_bytes is not None:
        argv += [
            "--mount",
            f"type=tmpfs,destination={DISK},tmpfs-size={bundle.disk_bytes},tmpfs-mode=1777,notmpcopyup",
        ]
    if bundle.stored_disk:
        argv += ["--mount", f"type=bind,source={DISK},destination={DISK}"]
    if not bundle.filtered:
        argv += ["--security-opt", "seccomp=unconfined"]
    argv += _limits(bundle)
    return [*argv, "--rootfs", f"{place}/{number}/rootfs", AGENT, "inside", "--control-fd", str(CONTROL_FD)]


def environment(place: str, *, uid: int, gid: int) -> dict[str, str]:
    """What an ordinary user's runtime gets: in the private world that user is root, in a user namespace that is there
    already.
    """
    return {
        "_CONTAINERS_USERNS_CONFIGURED": "done",
        "_CONTAINERS_ROOTLESS_UID": str(uid),
        "_CONTAINERS_ROOTLESS_GID": str(gid),
        "XDG_RUNTIME_DIR": f"{place}/{FOLDER}/run",
    }


def which_runtime(path: str, place: str, number: int) -> list[str]:
    """The command that says by which OCI runtime a container was run."""
    return [*base(path, place), "container", "inspect", "--format", "{{.OCIRuntime}}", name(number)]


def name(number: int) -> str:
    """The name of a container."""
    return f"virtlab-{number}"


def own_group(names: Iterable[str]) -> str | None:
    """The container's group among the names below our control group; None if none exists yet.

    >>> own_group(["tasks", "libpod-conmon-77ab", "libpod-77ab"])
    'libpod-77ab'
    """
    found = [each for each in names if each.startswith(GROUP_PREFIX) and "conmon" not in each]
    return min(found, default=None)


def _limits(bundle: Bundle) -> list[str]:
    if bundle.cgroup is None:
        return ["--cgroups", "disabled"]
    out = ["--cgroups", "no-conmon", "--cgroup-parent", bundle.cgroup]
    limits = bundle.limits
    if limits.bandwidth_us is not None:
        out += ["--cpu-quota", str(limits.bandwidth_us[0]), "--cpu-period", str(limits.bandwidth_us[1])]
    if limits.memory_bytes is not None:
        # Without the second, which is both together, it would be given as much again of swap.
        both = limits.memory_bytes + limits.swap_bytes
        out += ["--memory", f"{limits.memory_bytes}b", "--memory-swap", f"{both}b"]
    return out
