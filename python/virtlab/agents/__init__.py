"""The tongue of the agent, typed: frames in, records out; no I/O."""
