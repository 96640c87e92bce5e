"""What a guest of a Gluster runs: the daemon of a node, or the mount of a client, by the system's own Python and
programs.

It is a file of the service, and needs nothing of virtlab. It is the first process of a namespace of its own for
processes, so bricks, which leave their daemon, end with it; a node has one for mounts, too, in which it keeps what it
knows on its guest's disk. The first node joins the others and makes the volume. A client has written and read a file
before it says that it is ready. The same program, as a command beside it, lists what a node has, and resets its brick
to an empty one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from hashlib import file_digest
from pathlib import Path
from typing import Any

PORT = 24007
COMMAND = "/usr/sbin/gluster"
READY = "virtlab: this part of Gluster is ready"
ALONE = "VIRTLAB_ALONE"  # set in the environment of the first process
LOOK_S = 0.2
TRY_S = 20.0  # of one command
OWN_FILES = ".glusterfs"  # Gluster's own, in a brick
LIST, WIPE, MISSED, LOSS = "--copies", "--wipe", "--missed", "loss.json"
PENDING = "indices/xattrop"  # what a brick notes of its mirrors: `heal info` tells it
WATCH, LOST, OVER = "recovery_program.py", "lost.json", "healed"
CONNECTED = re.compile(r"^connected = 1$", re.MULTILINE)  # of a brick, by the mount itself
HELD = re.compile(r"Another transaction|Locking failed|Unable to acquire lock")
COUNT_S = 2.0  # from one question how much is to be healed to the next
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


def gluster(words: str, *options: str) -> tuple[bool, str]:
    """Whether Gluster did as it was told; what it said."""
    try:
        done = subprocess.run(
            [COMMAND, "--mode=script", *options, *words.split()],
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


def made(parameters: dict[str, Any], nodes: list[str], home: Path) -> bool:
    """Whether the volume is there; makes what can be made now."""
    volume, others = parameters["volume"], nodes[1:]
    if gluster(f"volume status {volume}")[0]:
        return True
    if not all(is_open(address) for address in nodes):
        return False
    known = gluster("peer status")[1]
    for address in others:
        if address not in known and not gluster(f"peer probe {address}")[0]:
            return False
    if gluster("peer status")[1].count("(Connected)") < len(others):
        return False
    bricks = [f"{address}:{home / 'brick'}" for address in nodes]
    copies = f" replica {parameters['copies']}" if parameters["copies"] > 1 else ""
    good, said = gluster(f"volume create {volume}{copies} transport tcp {' '.join(bricks)} force")
    if not good and "already exists" not in said:
        say(said.strip())
        return False
    return gluster(f"volume start {volume}")[0]


def held(brick: Path) -> dict[str, int]:
    """Files of a brick by their paths in it, with the octets of each; not those that say on which other brick a file
    is.
    """
    found = {}
    tops = [each for each in brick.iterdir() if each.name != OWN_FILES]
    for path in [*tops, *(below for top in tops for below in top.rglob("*"))]:
        state = path.lstat()
        elsewhere = state.st_mode & stat.S_ISVTX and state.st_size == 0
        if stat.S_ISREG(state.st_mode) and not elsewhere:
            found[str(path.relative_to(brick))] = state.st_size
    return found


def copies(brick: Path) -> dict[str, str]:
    """The same files, with a hash of the content of each."""
    found = {}
    for path in held(brick):
        with (brick / path).open("rb") as file:
            found[path] = file_digest(file, "blake2b").hexdigest()
    return found


def lose(home: Path, began_s: float) -> Path:
    """The brick is another one, and empty. What was in it is noted for the program that counts."""
    brick, gone, note = home / "brick", home / "brick.gone", home / LOST
    brick.rename(gone)
    brick.mkdir()
    missing = {str(brick / path): size for path, size in held(gone).items()}
    (home / OVER).unlink(missing_ok=True)
    lost = {
        "began_s": began_s,
        "missing": missing,
        "beside": [],
        "signs": [*missing],
        "over": str(home / OVER),
    }
    note.write_text(json.dumps(lost))
    shutil.rmtree(gone)
    return note


def pending(brick: Path) -> dict[str, int]:
    """Notes of a brick on files that mirrors lack, with the octets of each; they and files bear the same identity."""
    own, found = brick / OWN_FILES, {}
    for note in (own / PENDING).iterdir():
        name = note.name
        try:
            state = (own / name[:2] / name[2:4] / name).lstat()
        except OSError:
            continue  # the index itself, or a file that goes meanwhile
        if stat.S_ISREG(state.st_mode):
            found[str(note)] = state.st_size
    return found


def missed(home: Path) -> None:
    """Notes what a mirror lacks that is not back yet, and becomes the program that counts what is healed."""
    loss, note = json.loads(Path(LOSS).read_text()), home / LOST
    lacking: dict[str, Any] = {
        "missing": pending(home / "brick"),
        "beside": [],
        "signs": [],
        "over": None,
        "pending": True,
    }
    note.write_text(json.dumps({**loss, **lacking}))
    os.execv(sys.executable, [sys.executable, WATCH, str(note)])  # noqa: S606 - words of our own


def to_heal(volume: str, *options: str) -> int | None:
    """How many entries bricks of the volume still have for others; None where that is not known of all."""
    good, said = gluster(f"volume heal {volume} statistics heal-count", *options)
    numbers = [line.rpartition(":")[2].strip() for line in said.splitlines() if "Number of entries" in line]
    known = good and numbers and all(number.isdecimal() for number in numbers)
    return sum(map(int, numbers)) if known else None


def done(words: str, *options: str) -> None:
    """Has Gluster do something; it is told again while another node's command holds the volume."""
    until_s = time.monotonic() + TRY_S
    while True:
        good, said = gluster(words, *options)
        if good:
            return
        if not HELD.search(said) or time.monotonic() > until_s:
            sys.exit(f"the brick cannot be reset: {said.strip()}")
        time.sleep(LOOK_S)


def wipe(parameters: dict[str, Any], address: str) -> None:
    """Resets the brick of this node to an empty one, as for a disk that is replaced, and stays until it is filled
    again.
    """
    home, volume = Path(parameters["home"]), parameters["volume"]
    # It is outside of the node's namespaces, in which the daemon has its socket and its log.
    options = (f"--glusterd-sock={home}/runtime/glusterd.socket", f"--log-file={home}/log/glusterfs/cli.log")
    brick, began_s = f"{address}:{home / 'brick'}", time.monotonic()
    done(f"volume reset-brick {volume} {brick} start", *options)
    note = lose(home, began_s)
    done(f"volume reset-brick {volume} {brick} {brick} commit force", *options)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the program that counts takes a last look, and ends
    watch = subprocess.Popen([sys.executable, WATCH, str(note)])
    empty_looks, next_s = 0, time.monotonic() + COUNT_S
    while watch.poll() is None:
        if empty_looks < 2 and time.monotonic() > next_s:
            empty_looks = empty_looks + 1 if to_heal(volume, *options) == 0 else 0
            next_s = time.monotonic() + COUNT_S
            if empty_looks == 2:
                (home / OVER).touch()  # what is not there was deleted
        time.sleep(LOOK_S)
    sys.exit(watch.returncode)


def is_connected(folder: Path) -> bool:
    """Whether a mount has every brick: one that comes late would lack the folders that were made without it, and answer
    that they are not there.
    """
    bricks = list((folder / ".meta" / "graphs" / "active").glob("*-client-*/private"))
    return bool(bricks) and all(CONNECTED.search(each.read_text()) for each in bricks)


def holds(folder: str) -> bool:
    """Whether a file that is written there is read again, and every brick is there."""
    try:
        if not os.path.ismount(folder) or not is_connected(Path(folder)):
            return False
        content, path = os.urandom(10_000), Path(folder) / f".virtlab-ready-{os.urandom(8).hex()}"
        path.write_bytes(content)
        came = path.read_bytes()
        path.unlink()
    except OSError:
        return False
    return came == content


def clear(folder: str) -> None:
    """A mount that was left there, by one that was killed or did not find the volume, is gone."""
    subprocess.run(["umount", "--lazy", folder], capture_output=True, check=False)


def begin_client(parameters: dict[str, Any], nodes: list[str]) -> list[str]:
    """Mounts the volume where the role looks for it, and stays with it."""
    folder = parameters["folder"]
    clear(folder)
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
        f"--volfile-id={parameters['volume']}",
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
    if LIST in sys.argv:
        json.dump(copies(Path(told["home"]) / "brick"), sys.stdout)
        return
    addresses = [word for before, word in zip(sys.argv, sys.argv[1:], strict=False) if before == "--peer"]
    place = int(sys.argv[sys.argv.index("--place") + 1])
    if WIPE in sys.argv:
        wipe(told, addresses[place])
    if MISSED in sys.argv:
        missed(Path(told["home"]))
    if ALONE not in os.environ:
        become_first(sys.argv)
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
            clear(told["folder"])
            running = subprocess.Popen(command)  # the volume is not there yet
        if not ready:
            if not is_node:
                ready = holds(told["folder"])
            elif place == 0:
                ready = made(told, nodes, home)
            else:
                ready = gluster(f"volume status {told['volume']}")[0]
            if ready:
                say(READY)
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
