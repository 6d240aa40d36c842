"""reduce_window: one file per strategy, `handler` chooses among them.

geometry   windows along one axis: what they read, and which of that is padding
pooling    maximum, minimum and sum over small windows: MaxPool and Conv
separable  named combiners over any windows, one axis after the other
scan       cumulative windows: CumSum, or doubling
fold       any other region, in XLA's order
"""
