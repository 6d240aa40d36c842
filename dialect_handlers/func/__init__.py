"""Handlers of the func dialect."""
