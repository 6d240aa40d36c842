"""Running models in ONNX Runtime: calls, sessions, state, profiles, and files."""
