"""Verdicts, mistakes and changes in the forms that other programs show: JUnit XML and Markdown."""
