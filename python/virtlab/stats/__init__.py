"""Arrays in, estimates with intervals out; knows no topology."""
