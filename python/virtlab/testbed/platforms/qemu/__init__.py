"""Virtual machines by QEMU: their command line, their monitor, and how a set of them is started and watched."""
