"""Estimates and verdicts pushed to where people keep their numbers: Prometheus, OTLP, InfluxDB. Nothing listens."""
