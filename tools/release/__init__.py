"""Builds the distributions of a release and checks them. See `tools.release.__main__`."""
