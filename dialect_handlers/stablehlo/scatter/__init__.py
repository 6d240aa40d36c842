"""scatter.

`places` computes which element of the operand each element of the updates goes to. `one_window`
writes a single window. `handler` chooses between this and the ways of `common.scatter_updates`.
"""
