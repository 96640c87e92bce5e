"""Results that were made elsewhere, by other tools on machines we cannot run: read, checked, and kept as a dataset.

Each tool has a file, pure: text in, an output out; `readers.py` is their list. `mapping.py` says which file is which
role of which design point; `dataset.py` makes runs of it, in the experiment's own format, with provenance "imported".
"""

from virtlab.imported.dataset import Imported, import_results
from virtlab.imported.mapping import ImportFile, ImportRun, Sources, read_mapping

__all__ = ["ImportFile", "ImportRun", "Imported", "Sources", "import_results", "read_mapping"]
