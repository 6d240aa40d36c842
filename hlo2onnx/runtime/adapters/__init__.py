"""Adapters of runtimes: how each is installed, started, and asked to run a model."""
