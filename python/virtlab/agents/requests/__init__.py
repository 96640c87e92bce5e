"""What agents can be asked, a type per request: those of every agent, of probes, of leaders, and of the soft switch."""
