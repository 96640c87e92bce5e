"""What is asked of a file by simulation: why, what if, how far, and which is best."""
