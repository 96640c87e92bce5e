"""From text to typed sections: the file's tree, factors, types of leaves, and mistakes with their places."""
