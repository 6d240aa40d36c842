"""Changes of a graph that keep its meaning: replacement, dead code, CSE and LICM."""
