"""How long a report takes, and how much memory: over 10 million samples (50,000 requests and replies in each
of 100 runs).

The first report takes every run's values from its samples (cold); the second finds them kept beside the runs
(warm). Files are in the page cache both times: they were just written.

The dataset is written through the real writer into a folder that is removed again; the report is made in a
process of its own, so that its peak memory is the report's alone. There is no peer: no other tool reads these
datasets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.unit.report.report_specimen import experiment_text, write_dataset

RUNS = 100
REQUESTS = 50_000
MEASURE = """
import json, resource, sys, time
began = time.perf_counter()
from pathlib import Path
from virtlab.report import write_report
from virtlab.results import Dataset
page = write_report(Dataset.open(Path(sys.argv[1])))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "cpu_seconds": used.ru_utime + used.ru_stime,
    "seconds": time.perf_counter() - began,
    "peak_kib": used.ru_maxrss,
    "page_bytes": page.stat().st_size,
    "pictures": len(list((page.parent / "figures").iterdir())),
}))
"""


def bench() -> Iterator[dict[str, Any]]:
    """Seconds, peak memory and page size of one report, and how long its dataset took to write."""
    with tempfile.TemporaryDirectory(prefix="virtlab-bench-") as folder:
        path = Path(folder) / "specimen.results"
        began = time.perf_counter()
        repeat = -(-RUNS // 16)
        write_dataset(
            path,
            text=experiment_text(count=REQUESTS, repeat=repeat),
            samples=REQUESTS,
            runs=RUNS,
            streams=False,
        )
        written = time.perf_counter() - began
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path)],
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        again = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path)],
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        warm = json.loads(again.stdout.splitlines()[-1])
    rows = 2 * RUNS * REQUESTS  # one of sent/1 and one of rtt/1 each
    yield {"name": "report.seconds", "value": found["seconds"], "unit": "s", "goal": "<= 10", "samples": rows}
    yield {"name": "report.seconds_again", "value": warm["seconds"], "unit": "s", "samples": rows}
    yield {
        "name": "report.peak_memory",
        "value": found["peak_kib"] / 2**20,
        "unit": "GiB",
        "goal": "<= 1",
        "samples": rows,
    }
    yield {
        "name": "report.page",
        "value": found["page_bytes"] / 1e6,
        "unit": "MB",
        "pictures": found["pictures"],
    }
    yield {"name": "report.dataset_written", "value": rows / written, "unit": "row/s", "samples": rows}
