"""What a Plan is predicted to show: simulated or bounded, with costs that are fitted, and how far off that was."""
