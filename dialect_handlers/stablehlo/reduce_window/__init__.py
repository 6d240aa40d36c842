"""reduce_window: `handler` chooses among strategies, one file each, cheapest first.

    pooling    maximum, minimum and sum over small windows: MaxPool and Conv
    separable  named combiners over any windows, one axis after the other
    scan       cumulative windows along one axis: CumSum, or doubling
    fold       any other region, in XLA's order

`geometry` knows what the windows of an axis read, `padded_layout` lays an operand out for them.
"""
