"""What factors do to values: what one more of something adds, what each accounts for, what is left between runs."""
