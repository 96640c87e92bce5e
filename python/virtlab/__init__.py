"""virtlab, a laboratory for virtualised infrastructure."""

__version__ = "0.1.0"
