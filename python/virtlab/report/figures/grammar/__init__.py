"""What every figure is made of: its noun, panels, colours, and the way to a picture."""
