"""The HTML report: one file with the graph, the verification, the profile and all tables."""
