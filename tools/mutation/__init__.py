"""Mutation testing: single changes in the code under test, and which tests notice them."""
