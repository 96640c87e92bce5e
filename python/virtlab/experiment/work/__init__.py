"""What happens in that world: roles, their reach, the timeline, a search and its tests."""
