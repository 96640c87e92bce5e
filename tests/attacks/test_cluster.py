"""A scheduler whose way is open: who is between runs programs here and there, for both believe what they are sent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from virtlab.campaign.dispatch.dask import DaskPool, closed
from virtlab.errors import ExperimentError

HERE = [
    "tcp://127.0.0.1:8786",
    "127.0.0.2:8786",
    "tcp://localhost:8786",
    "tcp://[::1]:8786",
    "tls://lab-a:8786",
]
OPEN = [
    "tcp://10.0.0.1:8786",
    "10.0.0.1:8786",
    "lab-a:8786",
    "ws://lab-a:8786",
    "wss://lab-a:8786",
    "tcp://127.0.0.1@lab-a:8786",
    "tcp://127.0.0.1.lab-a:8786",
    "tcp://localhost.lab-a:8786",
    "tcp://[::]:8786",
    "tcp://0.0.0.0:8786",
    "tls://tcp://lab-a:8786",
    "tcp://tls://lab-a",
    "TLS.tcp://lab-a",
    "",
    "tcp://",
    "tcp://[",
]


@pytest.mark.parametrize("address", OPEN)
def test_a_scheduler_elsewhere_is_spoken_to_by_tls_or_not_at_all(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def connected(*_: Any, **__: Any) -> None:
        raise AssertionError("connected")

    monkeypatch.setitem(__import__("sys").modules, "distributed", SimpleNamespace(Client=connected))
    dataset: Any = SimpleNamespace(path=tmp_path)
    with pytest.raises(ExperimentError, match="could run programs on both") as refused:
        DaskPool(dataset, None, address)  # type: ignore[arg-type]
    assert "tls://" in str(refused.value.cure)


@pytest.mark.parametrize("address", HERE)
def test_a_scheduler_here_or_by_tls_is_spoken_to(address: str) -> None:
    assert closed(address)
