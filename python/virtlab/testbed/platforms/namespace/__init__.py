"""Network namespaces of the private world: its Steps build them, and nothing has to be started."""
