"""Containers by an OCI runtime: their bundles, their control groups, and how a set of them is started and watched."""
