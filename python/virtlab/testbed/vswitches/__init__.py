"""Virtual switches that are programs: started inside the private world, given their ports and rules, and watched."""
