"""Handlers of the StableHLO dialect."""
