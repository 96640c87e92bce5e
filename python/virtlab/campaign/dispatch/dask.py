"""A pool of the workers of a Dask scheduler, on this machine or others: an optional extra, `virtlab[dask]`.

A worker plays a run into a folder of its own and sends the files; they are stored here, by the process that holds
the dataset, as they arrive. So workers need no common file system, and one that is lost takes no finished run with
it: Dask gives its tasks to another, and when it gives up the campaign asks again.

Dask runs what it receives, and both sides send each other pickles, so an impostor can run programs on either side.
So a scheduler on another machine is spoken to by TLS, with certificates of one authority on both sides, or not at all.
"""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from virtlab.campaign.dispatch.work import LostWorkerError, Task, make
from virtlab.errors import ExperimentError, MachineError
from virtlab.plan.backend import Backend
from virtlab.results import Dataset, RunRecord

CONNECT_S = 10
CERTIFICATES = "with the certificates in Dask's own configuration (distributed.comm.tls)"


class DaskPool:
    """Workers of the scheduler at an address, e.g. `tls://10.0.0.1:8786`.

    ExperimentError if others could read or write the connection; MachineError if Dask is not installed or no
    scheduler answers.
    """

    def __init__(self, dataset: Dataset, backend: Backend, address: str) -> None:
        if not closed(address):
            what = f"'{address}' is on another machine, and anybody between it and this one could run programs on both"
            raise ExperimentError("--scheduler", what, f"write tls://HOST:PORT, {CERTIFICATES}")
        try:
            import distributed
        except ImportError as error:
            raise MachineError(
                "--scheduler", f"Dask is not installed ({error})", "pip install 'virtlab[dask]'"
            ) from error
        client: Any = distributed.Client
        try:
            self._client: Any = client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError, TypeError) as error:  # the last: TLS without certificates
            what = f"no scheduler answers at {address} ({error})"
            cure = f"begin one, {CERTIFICATES}" if address.startswith("tls://") else "begin one"
            raise MachineError("--scheduler", what, cure) from error
        threads = self._client.nthreads()
        self.size = max(1, sum(threads.values()))
        self.most = 1  # what is lost with a worker, Dask gives to another
        self._dataset = dataset
        self._lost = (distributed.KilledWorker,)
        self._manifest = (dataset.path / "manifest.json").read_text(encoding="utf-8")
        self._backend = pickle.dumps(backend)
        self._under_way: dict[Any, Future[RunRecord | None]] = {}
        self._storing = threading.Lock()

    def submit(self, tasks: Sequence[Task], worker: int) -> list[Future[RunRecord | None]]:
        """Makes runs on the workers; which, Dask says."""
        del worker
        return [self._submit(task) for task in tasks]

    def _submit(self, task: Task) -> Future[RunRecord | None]:
        outer: Future[RunRecord | None] = Future()
        inner = self._client.submit(_make, self._manifest, self._backend, task, pure=False)
        self._under_way[inner] = outer
        inner.add_done_callback(partial(self._ended, task, outer))
        return outer

    def _ended(self, task: Task, outer: Future[RunRecord | None], inner: Any) -> None:
        try:
            content = inner.result()
            with self._storing:
                found = self._dataset.take(task.key, content) if content else None
            outer.set_result(found)
        except CancelledError:
            outer.set_result(None)
        except self._lost as error:
            outer.set_exception(LostWorkerError(str(error)))
        except Exception as error:
            outer.set_exception(error)
        finally:
            self._under_way.pop(inner, None)

    def settle(self) -> None:
        """Runs are stored here, so there is nothing to wait for."""

    def cancel(self) -> None:
        """Runs that wait are not begun; those that workers play now are let go and not kept."""
        waiting = list(self._under_way)
        self._client.cancel(waiting, force=True)

    def close(self) -> None:
        """Leaves the scheduler."""
        self._client.close()


def closed(address: str) -> bool:
    """Whether no third party can interfere: the connection is TLS, or does not leave this machine.

    >>> [closed(text) for text in ("tls://a:8786", "tcp://127.0.0.1:8786", "[::1]:8786", "tcp://10.0.0.1:8786", "a:8786")]
    [True, True, True, False, False]
    """
    scheme, _, place = address.rpartition("://")
    try:
        host = urlsplit(f"//{place}").hostname
        return scheme == "tls" or host == "localhost" or ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _make(manifest: str, backend: bytes, task: Task) -> dict[str, bytes] | None:
    """On a worker: the files of a run."""
    with tempfile.TemporaryDirectory(prefix="virtlab-run-") as folder:
        root = Path(folder)
        (root / "runs").mkdir()
        (root / "manifest.json").write_text(manifest, encoding="utf-8")
        (record,) = make(Dataset.assist(root), pickle.loads(backend), [task], lambda: False)  # noqa: S301 - the campaign's
        if record is None:
            return None
        files = (path for path in record.folder.rglob("*") if path.is_file() and path.name != "values.json")
        return {str(path.relative_to(record.folder)): path.read_bytes() for path in files}
