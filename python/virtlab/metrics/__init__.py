"""Every metric: unit, better direction, definition, source."""
