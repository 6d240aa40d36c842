"""Changes translated models, and says what share of the changes `verify()` catches."""
