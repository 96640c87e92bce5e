"""Paravirtualised domains of Xen: their configuration, how they are started and watched, what xentop says of them."""
