"""scatter.

`dimension_numbers` sorts the axes. `scatter_indices` computes which element of the operand each
element of the updates goes to. `handler` chooses the ONNX operator. `row_updates`,
`padded_elements` and `blocked_updates` are ways to write the updates.
"""
