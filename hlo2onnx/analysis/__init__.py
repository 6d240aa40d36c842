"""Read-only facts about values. Handlers and rules ask here and derive none themselves."""
