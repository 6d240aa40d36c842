"""reduce_window: `handler` chooses the first strategy that fits.

    pooling     maximum, minimum and sum over small windows: MaxPool and Conv
    separable   named combiners over any windows, one axis after the other
    cumulative  cumulative windows along one axis: CumSum, or doubling
    fold        any other region, in XLA's order

Extents, sizes of windows and padding may be symbolic in all of them. `common.windows` knows what
the windows read.
"""
