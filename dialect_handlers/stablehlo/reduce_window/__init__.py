"""reduce_window: `handler` chooses the first strategy that fits.

    pooling     maximum, minimum and sum over small windows: MaxPool and Conv
    separable   named combiners over any windows, one axis after the other
    cumulative  cumulative windows along one axis: CumSum, or doubling
    fold        any other region, in XLA's order
    symbolic    windows whose extents, steps or padding are symbolic

`geometry` knows what the windows of an axis read. `padded_layout` lays an operand out for them.
"""
