"""What a guest of a Swift runs: its servers, by the system's own Python, where Swift is installed.

It is a file of the service, and needs nothing of virtlab. Each guest builds the same rings, since devices and seed are
the same; so no file has to cross from guest to guest. A proxy has stored and read an object before it says that it is
ready. All servers end with the first that ends. The same program, as a command beside it, lists what a node has, and
takes it away.
"""

from __future__ import annotations

import hmac
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from hashlib import md5, sha256
from importlib import import_module
from pathlib import Path
from typing import Any

PORTS = {"object": 6200, "container": 6201, "account": 6202}
CACHE_PORT = 11211
COPY_PORT = 8730  # of rsync, by which databases are copied as a whole
WATCH, LOST = "recovery_program.py", "lost.json"
LOOPBACK = "127.0.0.1"
READY = "virtlab: this part of Swift is ready"
ACCOUNT, PROBED = "AUTH_virtlab", "ready"  # where no client logs in
PREFIX = "AUTH_"  # of accounts of those who do, and of tokens
REGION = "us-east-1"  # of signatures
LOOK_S = 0.1
TRY_S = 2.0
SEED = 1  # of the rings
LISTED_MOST = 20  # times, while objects are moved
LIST, WIPE, REVOKE, CONTENT = "--copies", "--wipe", "--revoke", ".data"
NAMES, MISSED, OTHERS = "--names", "--missed", "others.json"

COMMON = """[DEFAULT]
bind_ip = {address}
bind_port = {port}
user = {user}
swift_dir = {folder}
devices = {devices}
mount_check = false
workers = {workers}
log_level = WARNING
fallocate_reserve = 0
recon_cache_path = {folder}

"""
SERVER = "[pipeline:main]\npipeline = {kind}-server\n\n[app:{kind}-server]\nuse = egg:swift#{kind}\n\n"
REPLICATOR = "[{kind}-replicator]\nconcurrency = {concurrency}\ninterval = {interval_s}\n{how}\n\n"
COPYING = "port = {port}\naddress = {address}\nuse chroot = false\nlog file = {log}\n"
MODULE = "\n[{kind}]\npath = {devices}\nread only = false\n"
PROXY = """[pipeline:main]
pipeline = catch_errors cache {auth}proxy-server

[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true

[filter:catch_errors]
use = egg:swift#catch_errors

[filter:cache]
use = egg:swift#memcache
memcache_servers = {cache}
"""
SIGNED = """
[filter:s3api]
use = egg:swift#s3api
location = {region}
"""
USERS = """
[filter:tempauth]
use = egg:swift#tempauth
user_{user} = {key} .admin
"""
SWIFT = """[swift-hash]
swift_hash_path_prefix = virtlab
swift_hash_path_suffix = virtlab

[storage-policy:0]
name = virtlab
default = yes
"""


def build_rings(parameters: dict[str, Any], addresses: list[str], folder: Path) -> dict[str, Any]:
    """A ring of each kind: the nodes are dealt into zones in runs, and each has one device of the same weight; returns
    what has built them, by kind.
    """
    ring = import_module("swift.common.ring")  # of the system's Python

    nodes, zones = parameters["nodes"], parameters["zones"]
    builders = {}
    for kind, port in PORTS.items():
        builder = ring.RingBuilder(parameters["part_power"], parameters["copies"], 0)
        for number, address in enumerate(addresses[:nodes]):
            builder.add_dev({
                "id": number, "region": 1, "zone": number * zones // nodes + 1, "ip": address, "port": port,
                "device": "disk", "weight": 1.0,
            })  # fmt: skip
        builder.rebalance(seed=SEED)
        builder.get_ring().save(str(folder / f"{kind}.ring.gz"))
        builders[kind] = builder
    return builders


def is_own(builder: Any, part: str, place: int) -> bool:
    """Whether a copy of a partition belongs to a node; it may keep others for nodes that were away."""
    return part.isdecimal() and place in {device["id"] for device in builder.get_part_devices(int(part))}


def held(device: Path, gone: Path, builders: dict[str, Any], place: int) -> dict[str, Any]:
    """What others make again of a node's content, which is elsewhere by now: folders of objects with the octets of
    each, and files of databases.
    """
    missing, beside, signs = {}, [], []
    for kind in PORTS:
        for part in (gone / f"{kind}s").glob("*"):
            if not is_own(builders[kind], part.name, place):
                continue
            for folder in part.glob("*/*"):
                newest = max((each.name for each in folder.iterdir()), default="")
                there = device / folder.relative_to(gone)
                if kind != "object":
                    beside += [str(there / file.name) for file in folder.glob("*.db")]
                elif newest.endswith(CONTENT):
                    missing[str(there)] = (folder / newest).stat().st_size
            if kind == "object":
                # Another node sends what is lacking.
                signs.append(str(device / part.relative_to(gone) / ".lock-replication"))
    return {"missing": missing, "beside": beside, "signs": signs, "over": None}


def lose(devices: Path, builders: dict[str, Any], place: int, note: Path) -> None:
    """A node's disk is an empty one, while its servers run; what was on it is noted for the program that counts."""
    device, gone = devices / "disk", devices / "gone"
    gone.mkdir()
    for each in device.iterdir():
        each.rename(gone / each.name)
    began_s = time.monotonic()
    note.write_text(json.dumps(held(device, gone, builders, place) | {"began_s": began_s}))
    shutil.rmtree(gone)


def wipe(parameters: dict[str, Any], addresses: list[str], place: int) -> None:
    """Takes away what a node has, and becomes the program that counts what comes back."""
    folder = Path.cwd()
    lose(Path(parameters["devices"]), build_rings(parameters, addresses, folder), place, folder / LOST)
    count(folder)


def names(device: Path) -> dict[str, tuple[str, int]]:
    """Objects of a node by the folders of their partitions, with their newest file and its octets."""
    found = {}
    for folder in device.glob("objects/*/*/*"):
        with suppress(OSError):  # it goes meanwhile, or is no folder
            newest = max((each.name for each in folder.iterdir()), default="")
            if newest:
                found[str(folder.relative_to(device))] = (newest, (folder / newest).stat().st_size)
    return found


def behind(device: Path, others: dict[str, Any], builders: dict[str, Any], place: int) -> dict[str, Any]:
    """What a node that was away lacks of its own objects, or has in an older version, by what others list. Where the
    lock of a partition appears again, another node sends to it.
    """
    own, signs = names(device), set()
    missing: dict[str, int] = {}
    newest: dict[str, str] = {}
    for listed in others["lists"]:
        for path, (name, size) in listed.items():
            part, folder = path.split("/")[1], str(device / path)
            known = max(own.get(path, ("",))[0], newest.get(folder, ""))
            if is_own(builders["object"], part, place) and name > known and name.endswith(CONTENT):
                missing[folder], newest[folder] = size, name
                signs.add(device / "objects" / part / ".lock-replication")
    for sign in signs:
        sign.unlink(missing_ok=True)
    return {
        "began_s": others["began_s"],
        "missing": missing,
        "newest": newest,
        "signs": sorted(map(str, signs)),
        "beside": [],
        "over": None,
    }


def count(folder: Path) -> None:
    """Becomes the program that counts what comes back, by the note in that folder."""
    os.execv(sys.executable, [sys.executable, WATCH, str(folder / LOST)])  # noqa: S606 - words of our own


def missed(parameters: dict[str, Any], addresses: list[str], place: int) -> None:
    """Notes what a node lacks whose servers are not there yet, and counts what comes back."""
    folder = Path.cwd()
    others = json.loads((folder / OTHERS).read_text())
    lacking = behind(
        Path(parameters["devices"]) / "disk", others, build_rings(parameters, addresses, folder), place
    )
    (folder / LOST).write_text(json.dumps(lacking))
    count(folder)


def copies(device: Path) -> dict[str, dict[str, tuple[str, bool]]]:
    """Objects of a node by container and name: the newest version, a time with what was done, and whether its content
    has the hash that was noted with it.
    """
    for _ in range(LISTED_MOST):
        with suppress(FileNotFoundError):  # a replicator took away what it has sent to where it belongs
            return listed(device)
    return listed(device)


def listed(device: Path) -> dict[str, dict[str, tuple[str, bool]]]:
    """The same. FileNotFoundError where something goes meanwhile."""
    diskfile = import_module("swift.obj.diskfile")
    found: dict[str, dict[str, tuple[str, bool]]] = {}
    for folder in device.glob("objects/*/*/*"):
        newest = max(folder.iterdir(), default=None)
        if newest is None:
            continue
        noted = diskfile.read_metadata(str(newest))
        _, _, container, name = noted["name"].split("/", 3)
        is_content = newest.suffix == CONTENT
        whole = is_content and md5(newest.read_bytes(), usedforsecurity=False).hexdigest() == noted["ETag"]
        found.setdefault(container, {})[name] = (newest.name, whole)
    return found


def replicator(parameters: dict[str, Any], kind: str) -> str:
    """The settings of a kind's replicator: objects go over the servers' own protocol; a database that is missing as a
    whole by rsync.
    """
    module = f"rsync_module = rsync://{{replication_ip}}:{COPY_PORT}/{kind}"
    how = "sync_method = ssync" if kind == "object" else module
    return REPLICATOR.format(kind=kind, how=how, **parameters["replicator"])


def copying(address: str, folder: Path, devices: Path) -> list[str]:
    """What takes databases of other nodes."""
    conf, log = folder / "rsyncd.conf", folder / "rsyncd.log"
    modules = "".join(MODULE.format(kind=kind, devices=devices) for kind in PORTS if kind != "object")
    conf.write_text(COPYING.format(port=COPY_PORT, address=address, log=log) + modules)
    return ["rsync", "--daemon", "--no-detach", f"--config={conf}"]


def begin_node(parameters: dict[str, Any], address: str, folder: Path) -> list[list[str]]:
    """Its servers of accounts, containers and objects, and what makes lost copies again."""
    devices = Path(parameters["devices"])
    (devices / "disk").mkdir(parents=True, exist_ok=True)
    begun = []
    for kind, port in PORTS.items():
        text = COMMON.format(
            address=address,
            port=port,
            user=parameters["user"],
            folder=folder,
            devices=devices,
            workers=parameters["workers"],
        ) + SERVER.format(kind=kind)
        if parameters["replicator"]:
            text += replicator(parameters, kind)
        conf = folder / f"{kind}-server.conf"
        conf.write_text(text)
        begun.append([f"swift-{kind}-server", str(conf), "-v"])
        if parameters["replicator"]:
            begun.append([f"swift-{kind}-replicator", str(conf), "-v"])
    if parameters["replicator"]:
        begun.append(copying(address, folder, devices))
    return begun


def at(address: str, port: int) -> str:
    """An address with a port, as one word."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def caches(parameters: dict[str, Any]) -> list[str]:
    """Addresses of the caches of all proxies."""
    return [at(address, CACHE_PORT) for address in parameters["proxies"]]


def revoke(parameters: dict[str, Any]) -> None:
    """Takes from the caches of the proxies the token that a user has, as if it had never been given."""
    ring = import_module("swift.common.memcached").MemcacheRing(caches(parameters))
    own = f"{PREFIX}/user/{parameters['login']['user']}"
    token = ring.get(own)
    if token is None:
        sys.exit("no token was given")
    for key in (f"{PREFIX}/token/{token}", own):
        ring.delete(key)
        if ring.get(key) is not None:
            sys.exit("a token is still there")


def begin_proxy(parameters: dict[str, Any], address: str, folder: Path) -> list[list[str]]:
    """A server for clients, and its cache of what it knows of accounts and containers. Tokens are in it, too: then all
    proxies share their caches, so that each knows a token that another gave.
    """
    text = COMMON.format(
        address=address,
        port=parameters["port"],
        user=parameters["user"],
        folder=folder,
        devices=folder,
        workers=parameters["workers"],
    )
    keys, login = parameters["keys"], parameters["login"]
    auth = ("s3api " if keys else "") + ("tempauth " if login else "")
    is_shared = login and not keys
    text += PROXY.format(
        cache=",".join(caches(parameters) if is_shared else [at(LOOPBACK, CACHE_PORT)]), auth=auth
    )
    text += SIGNED.format(**keys) if keys else ""
    text += USERS.format(user=login["user"].replace(":", "_"), key=login["key"]) if login else ""
    conf = folder / "proxy-server.conf"
    conf.write_text(text)
    return [
        ["memcached", "-l", address if is_shared else LOOPBACK, "-p", str(CACHE_PORT), "-U", "0"],
        ["swift-proxy-server", str(conf), "-v"],
    ]


def say(line: str) -> None:
    """Into the output of the service."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def is_open(address: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((address, port), TRY_S).close()
    except OSError:
        return False
    return True


def signed(
    keys: dict[str, str], at: str, method: str, path: str, fields: dict[str, str], body: bytes
) -> dict[str, str]:
    """Fields of a request of S3, in order of their names, with its signature (AWS Signature Version 4)."""
    body_hash = sha256(body).hexdigest()
    fields = {**fields, "x-amz-content-sha256": body_hash, "x-amz-date": at}
    lines, names = "".join(f"{name}:{value}\n" for name, value in fields.items()), ";".join(fields)
    canonical = f"{method}\n{path}\n\n{lines}\n{names}\n{body_hash}"
    scope = f"{at[:8]}/{keys['region']}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{keys['secret_key']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    by = f"Credential={keys['access_key']}/{scope},SignedHeaders={names},Signature={signature}"
    return fields | {"Authorization": f"AWS4-HMAC-SHA256 {by}"}


def token_of(client: http.client.HTTPConnection, login: dict[str, str]) -> str | None:
    """A token for a user; None where none is given."""
    client.request(
        "GET", "/auth/v1.0", headers={"X-Storage-User": login["user"], "X-Storage-Pass": login["key"]}
    )
    answer = client.getresponse()
    answer.read()
    return answer.getheader("X-Auth-Token") if answer.status == 200 else None


def account_of(login: dict[str, str] | None) -> str:
    """The account in whose containers objects are."""
    return f"/v1/{PREFIX}{login['user'].partition(':')[0]}" if login else f"/v1/{ACCOUNT}"


def stores(address: str, parameters: dict[str, Any]) -> bool:
    """Whether an object that is put at a proxy is read from it."""
    port, keys, login = parameters["port"], parameters["keys"], parameters["login"]
    content = os.urandom(10_000)
    host = at(address, port)
    folder = f"/{PROBED}" if keys else f"{account_of(login)}/{PROBED}"
    try:
        client = http.client.HTTPConnection(address, port, timeout=TRY_S)
        own = {}
        if login and not keys:
            token = token_of(client, login)
            if token is None:
                return False
            own = {"X-Auth-Token": token}
        for method, path, body, wanted in (
            ("PUT", folder, None, (200, 201, 202, 409)),  # it may be there from a try before
            ("PUT", f"{folder}/one", content, (200, 201)),
            ("GET", f"{folder}/one", None, (200,)),
            ("DELETE", f"{folder}/one", None, (204,)),
        ):
            now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            fields = signed(keys, now, method, path, {"host": host}, body or b"") if keys else own
            client.request(method, path, body, fields)
            answer = client.getresponse()
            came = answer.read()
            if answer.status not in wanted or (method == "GET" and came != content):
                return False
    except (OSError, http.client.HTTPException):
        return False
    return True


def main() -> None:
    """Serves until one of its servers ends."""
    told = json.loads(sys.argv[1])
    if LIST in sys.argv:
        json.dump(copies(Path(told["devices"]) / "disk"), sys.stdout)
        return
    if NAMES in sys.argv:
        json.dump(names(Path(told["devices"]) / "disk"), sys.stdout)
        return
    addresses = [word for before, word in zip(sys.argv, sys.argv[1:], strict=False) if before == "--peer"]
    place = int(sys.argv[sys.argv.index("--place") + 1])
    told["proxies"] = addresses[told["nodes"] :]
    if REVOKE in sys.argv:
        revoke(told)
        json.dump(None, sys.stdout)
        return
    if WIPE in sys.argv:
        wipe(told, addresses, place)
    if MISSED in sys.argv:
        missed(told, addresses, place)
    address, is_node, folder = addresses[place], place < told["nodes"], Path.cwd() / "own"
    folder.mkdir(exist_ok=True)
    (folder / "swift.conf").write_text(SWIFT)
    # In a process of its own, which gives back the memory that it takes.
    builder = os.fork()
    if builder == 0:
        build_rings(told, addresses, folder)
        os._exit(0)
    if os.waitpid(builder, 0)[1] != 0:
        sys.exit("the rings cannot be built")
    commands = (begin_node if is_node else begin_proxy)(told, address, folder)
    environment = {**os.environ, "HOME": str(folder)}
    running = {
        # rsync would take a socket that it reads from for a client.
        words[0]: subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)
        for words in commands
    }
    ready = False
    while True:
        for name, process in running.items():
            if process.poll() is not None:
                say(f"{name} ended with code {process.returncode}")
                sys.exit(1)
        if not ready:
            # A proxy that asks servers which do not listen yet suppresses them for a minute.
            asked = [address] if is_node else addresses[: told["nodes"]]
            ready = all(is_open(each, port) for each in asked for port in PORTS.values())
            if ready and not is_node and told["login"] and not told["keys"]:
                ready = all(is_open(each, CACHE_PORT) for each in told["proxies"])
            if ready and not is_node:
                ready = stores(address, told)
            if ready:
                say(READY)
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
