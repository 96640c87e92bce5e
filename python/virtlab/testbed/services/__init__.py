"""Services on guests: what each kind starts, each in the file of its name, and all of a world, from start to end."""
