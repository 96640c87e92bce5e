"""Commands about a dataset: its report, other formats, results of other tools."""
