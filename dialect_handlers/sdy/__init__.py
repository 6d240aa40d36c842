"""Handlers of the Shardy dialect."""
