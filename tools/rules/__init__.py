"""The record of what rewrite rules do to the examples and to the zoo, and its page."""
