"""Reduces programs that fail: to a few ops that fail in the same way."""
