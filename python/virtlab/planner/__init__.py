"""One design point as a Plan; pure."""
