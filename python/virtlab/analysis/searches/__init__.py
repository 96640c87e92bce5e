"""What searches found: as values of their roles, beside their goals, and whether luck decided them."""
