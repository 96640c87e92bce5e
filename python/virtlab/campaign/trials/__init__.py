"""What trials leave: lines of a journal, and delays and gaps of their packets."""
