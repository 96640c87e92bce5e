"""Virtual switches that are programs: started inside the private world, told of their ports and rules, and watched."""
