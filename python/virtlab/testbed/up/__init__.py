"""Worlds that stay after the command that built them, until they are taken down."""
