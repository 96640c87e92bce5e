"""What guests have and are for each other: disks, swap, shares of processors, clusters, stores."""
