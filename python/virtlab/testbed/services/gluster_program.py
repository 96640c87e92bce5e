"""What a guest of a Gluster runs: the daemon of a node, or the mount of a client, by the system's own Python and programs.

It is a file of the service, and needs nothing of virtlab. It is the first process of a namespace of its own for
processes, so bricks, which leave their daemon, end with it; a node has one for mounts, too, in which it keeps what it
knows on its guest's disk. The first node joins the others and makes the volume. A client has written and read a file
before it says that it is ready.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PORT = 24007
COMMAND = "/usr/sbin/gluster"
READY = "virtlab: this part of Gluster is ready"
ALONE = "VIRTLAB_ALONE"  # set in the environment of the first process
LOOK_S = 0.2
TRY_S = 20.0  # of one command
OWN = {"/var/lib/glusterd": "state", "/var/log": "log", "/run": "runtime"}


def say(line: str) -> None:
    """Into the output of the service."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def is_open(address: str) -> bool:
    """Whether a node's daemon listens there."""
    try:
        socket.create_connection((address, PORT), 1.0).close()
    except OSError:
        return False
    return True


def asked(words: str) -> tuple[bool, str]:
    """Whether Gluster did as it was told; what it said."""
    try:
        done = subprocess.run(
            [COMMAND, "--mode=script", *words.split()],
            capture_output=True,
            text=True,
            timeout=TRY_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, "no answer"
    return done.returncode == 0, done.stdout + done.stderr


def mount(*words: str) -> None:
    """Mounts something, or ends with what was said."""
    subprocess.run(["mount", *words], check=True)


def own_folders(home: Path, hosts: list[str]) -> None:
    """What a daemon writes lies on the guest's disk, and names of the nodes are known without asking anybody."""
    for folder, name in OWN.items():
        (home / name).mkdir(parents=True, exist_ok=True)
        mount("--bind", str(home / name), folder)
    for folder in ("/var/log/glusterfs/bricks", "/run/gluster", str(home / "brick")):
        Path(folder).mkdir(parents=True, exist_ok=True)
    known = home / "hosts"
    known.write_text(
        "127.0.0.1 localhost\n" + "".join(f"{address} node{at}\n" for at, address in enumerate(hosts))
    )
    mount("--bind", str(known), "/etc/hosts")


def made(told: dict[str, Any], nodes: list[str], home: Path) -> bool:
    """Whether the volume is there; makes what can be made now."""
    volume, others = told["volume"], nodes[1:]
    if asked(f"volume status {volume}")[0]:
        return True
    if not all(is_open(address) for address in nodes):
        return False
    known = asked("peer status")[1]
    for address in others:
        if address not in known and not asked(f"peer probe {address}")[0]:
            return False
    if asked("peer status")[1].count("(Connected)") < len(others):
        return False
    bricks = [f"{address}:{home / 'brick'}" for address in nodes]
    copies = f" replica {told['copies']}" if told["copies"] > 1 else ""
    good, said = asked(f"volume create {volume}{copies} transport tcp {' '.join(bricks)} force")
    if not good and "already exists" not in said:
        say(said.strip())
        return False
    return asked(f"volume start {volume}")[0]


def holds(folder: str) -> bool:
    """Whether a file that is written there is read again."""
    try:
        if not os.path.ismount(folder):
            return False
        content, path = os.urandom(10_000), Path(folder) / f".virtlab-ready-{os.urandom(8).hex()}"
        path.write_bytes(content)
        came = path.read_bytes()
        path.unlink()
    except OSError:
        return False
    return came == content


def begin_client(told: dict[str, Any], nodes: list[str]) -> list[str]:
    """Mounts the volume where the role looks for it, and stays with it."""
    folder = told["folder"]
    subprocess.run(["umount", "--lazy", folder], capture_output=True, check=False)  # of the time before
    Path(folder).mkdir(parents=True, exist_ok=True)
    while not is_open(nodes[0]):
        time.sleep(LOOK_S)
    servers = [f"--volfile-server={address}" for address in nodes]
    return [
        "glusterfs",
        "-N",
        "--log-file=-",
        "--log-level=WARNING",
        *servers,
        f"--volfile-id={told['volume']}",
        folder,
    ]


def become_first(words: list[str]) -> None:
    """This program again, as the first process of namespaces of its own. A client's mount is its guest's."""
    os.environ[ALONE] = "1"
    told, place = json.loads(words[1]), int(words[words.index("--place") + 1])
    mounts = ["--mount", "--propagation", "private", "--mount-proc"] if place < told["nodes"] else []
    os.execvp(  # noqa: S606 - words of our own
        "unshare", ["unshare", "--pid", "--fork", "--kill-child", *mounts, sys.executable, *words]
    )


def main() -> None:
    """Serves until its daemon ends."""
    told = json.loads(sys.argv[1])
    if ALONE not in os.environ:
        become_first(sys.argv)
    addresses = [word for before, word in zip(sys.argv, sys.argv[1:], strict=False) if before == "--peer"]
    place = int(sys.argv[sys.argv.index("--place") + 1])
    nodes, home = addresses[: told["nodes"]], Path(told["home"])
    is_node, ready = place < len(nodes), False
    if is_node:
        own_folders(home, nodes)
    command = (
        ["glusterd", "-N", "--log-file=-", "--log-level=ERROR"] if is_node else begin_client(told, nodes)
    )
    running, begun_s = subprocess.Popen(command), time.monotonic()
    while True:
        if running.poll() is not None:
            if is_node or ready or time.monotonic() > begun_s + told["patience_s"]:
                sys.exit(f"{command[0]} ended with code {running.returncode}")
            running = subprocess.Popen(command)  # the volume is not there yet
        if not ready:
            if not is_node:
                ready = holds(told["folder"])
            elif place == 0:
                ready = made(told, nodes, home)
            else:
                ready = asked(f"volume status {told['volume']}")[0]
            if ready:
                say(READY)
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
