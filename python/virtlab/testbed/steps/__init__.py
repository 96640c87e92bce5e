"""Steps: kernel operations as data, each with its reason. Nothing here asks a kernel."""
