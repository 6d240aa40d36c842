"""What several op families share."""
