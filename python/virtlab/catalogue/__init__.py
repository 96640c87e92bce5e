"""What an experiment file can name: declarations only."""
