"""Commands that answer by simulation, and what simulation rests on."""
