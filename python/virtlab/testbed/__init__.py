"""Reality: lowers a Plan, has agents apply it, reads it back."""
