"""A profile of costs, fitted to designed runs (`calibrate`) or to any results (`refit`, `pools`)."""
