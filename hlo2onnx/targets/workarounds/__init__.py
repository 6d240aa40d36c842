"""Workarounds for a runtime's faults. Flags of the target switch each one on."""
