"""Whether tools of other projects can work with translated models."""
