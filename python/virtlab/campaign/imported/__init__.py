"""Results that were made elsewhere, by other tools on machines we cannot run: read, checked, and kept as a dataset.

`tools/` has a reader per tool, pure: text in, what it told out. `mapping.py` says which file is which role of which design
point; `write.py` makes runs of it, in the experiment's own format, with provenance "imported".
"""

from virtlab.campaign.imported.mapping import ImportFile, ImportRun, Sources, read_mapping
from virtlab.campaign.imported.write import Imported, import_results

__all__ = ["ImportFile", "ImportRun", "Imported", "Sources", "import_results", "read_mapping"]
