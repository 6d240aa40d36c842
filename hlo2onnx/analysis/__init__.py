"""Read-only facts about values. Handlers and rules ask here; nobody re-derives them."""
