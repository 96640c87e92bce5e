"""What a report shows, from the dataset alone: plain data, with no picture, table or page in it."""
