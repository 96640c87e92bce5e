"""What the sources of a study published: their values, and their figures by number."""
