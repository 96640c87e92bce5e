"""How fast samples become values, values verdicts, and how fast the statistics are.

Peers: run-level values against SQL over the same samples (DuckDB; mean, spread and percentiles only); smoothed
jitter against scipy's IIR filter; the BCa bootstrap against scipy's. `ratio` is the peer's time over ours. Memory
is of a process of its own that does nothing else.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "plans" / "switched_network.json"
RUNS = 20
ROWS = 500_000  # per run
PEER_SQL = """
SELECT run, avg(rtt_ns), stddev_pop(rtt_ns), min(rtt_ns), max(rtt_ns),
       quantile_cont(rtt_ns, [0.5, 0.9, 0.95, 0.99, 0.999]),
       quantile_cont(path_rtt_ns, [0.5, 0.9, 0.95, 0.99, 0.999])
FROM rtt GROUP BY run
"""


def write_dataset(path: Path) -> None:
    """Ten million round trips in twenty runs, as the probe would send them: rtt/1 and sent/1."""
    from virtlab.plan import Outcome, Plan, Realised
    from virtlab.results import Dataset, RunKey

    plan = Plan.parse(GOLDEN.read_bytes())
    generator = np.random.default_rng(1)
    with Dataset.create(path, "version: 1\n", name="bench") as dataset:
        for run in range(RUNS):
            seq = np.arange(ROWS, dtype=np.int64)
            sent = seq * 100_000
            rtt = 500_000 + generator.gamma(2.0, 20_000.0, ROWS).astype(np.int64)
            flow = np.zeros(ROWS, dtype=np.int32)
            with dataset.begin_run(RunKey(run // 5, run % 5, 0), plan.repeated(run % 5, run)) as writer:
                writer.block(
                    "probe",
                    "rtt/1",
                    {
                        "seq": seq,
                        "flow": flow,
                        "intended_ns": sent,
                        "sent_ns": sent,
                        "received_ns": sent + rtt,
                        "rtt_ns": rtt,
                        "path_rtt_ns": rtt - 30_000,
                    },
                )
                writer.block(
                    "probe",
                    "sent/1",
                    {
                        "seq": seq,
                        "flow": flow,
                        "intended_ns": sent,
                        "sent_ns": sent + 900,
                        "payload_bytes": flow + 1472,
                    },
                )
                writer.commit(Outcome("ok", windows={"measured": (0, ROWS * 100_000)}), Realised({}), {})


def analyse(path: str) -> None:
    """In a process of its own: values of the whole dataset; prints seconds, bytes, values."""
    from virtlab.analysis import run_values
    from virtlab.results import Dataset

    begin = time.perf_counter()
    table = run_values(Dataset.open(path))
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak, "values": len(table)}))


def timed(work: Callable[[], Any], times: int = 3) -> float:
    """The best of several times, in seconds."""
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def bench() -> Iterator[dict[str, Any]]:
    """One line per figure."""
    yield from _values()
    yield from _jitter()
    yield from _bootstrap()
    yield from _judging()


def _values() -> Iterator[dict[str, Any]]:
    from virtlab.results import Dataset

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.results"
        write_dataset(path)
        found = []
        peers = []
        for _ in range(2):
            for kept in path.glob("runs/*/values.json"):
                kept.unlink()
            found.append(_analysed(path))
            begin = time.perf_counter()
            Dataset.open(path).query(PEER_SQL)
            peers.append(time.perf_counter() - begin)
        again = min(_analysed(path)["seconds"] for _ in range(5))
    seconds, peer = min(one["seconds"] for one in found), min(peers)
    rows = RUNS * ROWS
    yield {
        "name": f"run-level values of {rows} round trips",
        "value": seconds,
        "unit": "s",
        "goal": "<= 10",
        "peer": "SQL over all samples, distributions only",
        "peer_value": peer,
        "ratio": peer / seconds,
    }
    yield {
        "name": "memory for it",
        "value": max(one["peak_bytes"] for one in found),
        "unit": "bytes",
        "goal": f"<= {2**30}",
        "peer": "one gibibyte",
        "ratio": 2**30 / max(one["peak_bytes"] for one in found),
    }
    yield {
        "name": f"the same values again, as {RUNS} runs keep them",
        "value": again,
        "unit": "s",
        "peer": "the samples",
        "peer_value": seconds,
        "ratio": seconds / again,
    }


def _analysed(path: Path) -> dict[str, Any]:
    """What `analyse` says in a process of its own."""
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import analysis; "
    call = [sys.executable, "-c", program + f"analysis.analyse({str(path)!r})"]
    said: dict[str, Any] = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    return said


def _jitter() -> Iterator[dict[str, Any]]:
    from scipy.signal import lfilter

    from virtlab.analysis.variation import jitter_rfc3550

    delays = np.random.default_rng(2).integers(0, 10**6, 1_000_000)
    ours = timed(lambda: jitter_rfc3550(delays))
    peer = timed(lambda: lfilter([1 / 16], [1, -15 / 16], np.abs(np.diff(delays, prepend=delays[0]))))
    yield {
        "name": "smoothed jitter of 1000000 delays",
        "value": ours,
        "unit": "s",
        "peer": "scipy lfilter",
        "peer_value": peer,
        "ratio": peer / ours,
    }


def _bootstrap() -> Iterator[dict[str, Any]]:
    from scipy.stats import bootstrap

    from virtlab.stats import bootstrap_interval

    values = np.random.default_rng(3).gamma(4.0, 1.0, 40)
    ours = timed(lambda: bootstrap_interval(values, statistic=np.median, seed=1))
    peer = timed(lambda: bootstrap((values,), np.median, n_resamples=4000, method="BCa", rng=1))
    yield {
        "name": "BCa interval of a median, 40 runs",
        "value": ours,
        "unit": "s",
        "peer": "scipy.stats.bootstrap",
        "peer_value": peer,
        "ratio": peer / ours,
    }


def _judging() -> Iterator[dict[str, Any]]:
    from virtlab.analysis import RunTable, RunValue, judge, parse_claim

    generator = np.random.default_rng(4)
    rows = []
    for point in range(200):
        levels = {"load": f"{point % 20} kB", "switches": str(point // 20 % 2), "streams": str(point // 40)}
        for run in range(30):
            value = 1000.0 + point + float(generator.normal())
            rows.append(
                RunValue(
                    f"p{point}-r{run}",
                    point,
                    levels,
                    run,
                    "soft_switch",
                    "probe",
                    "rtt",
                    "mean",
                    value,
                    "ns",
                    1000,
                )
            )
    table = RunTable(tuple(rows))
    claims = [
        parse_claim(text)
        for text in (
            "probe.rtt.mean grows with load",
            "probe.rtt.mean: switches 0 < 1",
            "probe.rtt.mean is linear in load within 5 %",
            "probe.rtt.mean <= 2 us",
            "probe.rtt.mean: streams 0 < 4 in growth over load",
        )
    ]
    ours = timed(lambda: judge(claims, table))
    yield {"name": "5 claims over 200 design points of 30 runs", "value": ours, "unit": "s", "goal": "<= 1"}
