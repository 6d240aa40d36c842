"""Rules for reshapes, transposes, broadcasts, slices and pads."""
