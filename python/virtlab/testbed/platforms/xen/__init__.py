"""Paravirtualised domains of Xen: their configuration, how a set of them is started and watched, what xentop says of them."""
