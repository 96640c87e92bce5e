"""Samples on disk: datasets, provenance, artefacts.

A dataset is written by one process and read by many. `Dataset.runs()` gives `RunRecord`s,
`record.samples(stream, schema)` numpy columns, `dataset.connect()` one DuckDB over everything.
"""

from virtlab.results.dataset import Dataset
from virtlab.results.lock import FileLock, Holder
from virtlab.results.manifest import Manifest
from virtlab.results.record import RunKey, RunRecord, Stream
from virtlab.results.writer import RunWriter

__all__ = ["Dataset", "FileLock", "Holder", "Manifest", "RunKey", "RunRecord", "RunWriter", "Stream"]
