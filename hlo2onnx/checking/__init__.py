"""Checks programs before a translation: what is refused, and what will be slow."""
