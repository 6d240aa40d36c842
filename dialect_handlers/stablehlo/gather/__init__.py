"""gather.

`dimension_numbers` sorts the axes. `start_indices` arranges the start indices. `strategies` are the
ways to translate a gather, the cheapest first.
"""
