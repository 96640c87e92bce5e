"""Domains of libvirt, started and stopped by its own command-line client."""
