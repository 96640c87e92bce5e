"""Samples on disk: datasets, provenance, artefacts."""
