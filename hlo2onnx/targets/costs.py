"""What operators cost in a runtime: the numbers that rules and handlers compare sizes with."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Sizes at which one way to compute becomes faster, or more exact, than another.

    The defaults know no runtime: fewer nodes are better, unless much more would be computed or
    copied. `tables/ort-cpu.json` holds the numbers of ONNX Runtime 1.31 with two threads; the
    times below were measured there. A table gives whole numbers that are not negative.
    """

    # -- time on one core, for estimates ----------------------------------------------------------

    node_nanoseconds: float = 0
    """Time that a node takes to start. 0: the times are unknown. All five are fitted to the
    examples and the zoo: docs/zoo.md shows how well."""
    element_picoseconds: float = 0
    """Time that arithmetic or a copy takes for an element."""
    function_picoseconds: float = 0
    """Time that a quotient or a function such as Exp takes for an element."""
    moved_picoseconds: float = 0
    """Time for an element that is gathered, scattered, chosen or transposed."""
    product_picoseconds: float = 0
    """Time of a multiplication in a product of matrices."""

    # -- nodes ------------------------------------------------------------------------------------

    small_elements: float = 2048
    """Elements of the largest tensor for which the count of nodes matters, and not what they do for
    each element: for it, ReduceL2 and ReduceLogSumExp replace several operators (half the time at
    256 elements, 1.4 times at 4,096), Where writes a window that may lie outside, ScatterND copies
    the whole tensor for a window, and a table for all trips of a loop takes no longer than one
    row."""
    many_elements: float = math.inf
    """Elements from which on another operator, or one more, is faster for each: GatherElements than
    Gather or GatherND (1,000,000 numbers take 0.6, 1.9 and 5.5 ms), BitShift than a division by 2^k
    (0.3 and 1.4 ms for 1,000,000 of u32), indices in i32 than in i64 (Where takes 0.2 and 10.5 ms
    for 1,000,000), an If over the extremes of indices than clamping each (0.66 and 1.2 ms for
    100,000 pairs)."""

    joined_elements_per_node: float = math.inf
    """Elements that are joined and split again in the time that a node takes to start."""
    copied_elements_per_node: float = math.inf
    """Elements that Concat, Slice or Split copy in rows in the time that a node takes to start."""
    gathered_elements: float = 1
    """Elements that a Gather may copy for each element that is wanted, instead of one Slice."""
    scattered_part: float = 1
    """ScatterND writes a window of at most 1 / this of a tensor: it copies the tensor once. A
    larger window is put between slices: they copy it twice, but need no index for each row."""
    scattered_row: float = 64
    """Elements of a row from which ScatterND writes a window of any size: half of 16,384 rows of 64
    take 0.18 ms, 0.08 in place, and 0.16 between slices; half of 1,000,000 numbers 3.4 and 0.17."""

    threefry_written_elements: float = 0
    """Most numbers for which the rounds of Threefry are written out, not a Scan over groups of
    rounds: 29 and 40 µs for 8 numbers, 44 and 52 µs for 256."""

    # -- threads ----------------------------------------------------------------------------------

    threaded_elements: float = 0
    """Elements of an operand or result from which on a second thread may help a node that does
    little for each: no node is faster with 16,384, an Add of 262,144 takes half the time. 0:
    always."""
    threaded_products: float = 0
    """Multiplications from which on it may help a MatMul or Conv: 40 x 40 times 40 x 40 takes 5.4
    µs with one and with two threads, a row of 256 times 256 x 256 8.5 and 6.5 µs. 0: always."""

    # -- loops ------------------------------------------------------------------------------------

    unrolled_nodes: float = 0
    """Nodes that an unrolled loop may have. A loop costs as much as about ten nodes."""
    unrolled_layer_nodes: float = 0
    """The same where each trip multiplies with a constant matrix of its own, which the runtime
    then packs. A layer of a network has about 40 nodes."""
    fission_nodes: float = math.inf
    """Nodes that a trip must be spared for a second loop to pay: that costs three in each trip."""
    trip_bytes: float = 0
    """Bytes that a trip may move instead of computing them from fewer; also those of the states
    that get a loop of their own."""
    cached_bytes: float = math.inf
    """Bytes that fit into the cache."""
    batched_row_bytes: float = math.inf
    """Largest row that is computed for all trips at once. The work of a trip with larger rows
    takes many times as long as its nodes take to start."""
    # -- one operator in place of several ---------------------------------------------------------

    padded_elements: float = math.inf
    """Largest tensor whose borders are made by Pad, which copies it, and not by ScatterND."""
    channel_norm_extent: float = 0
    """Fewest channels second that LayerNormalization normalizes, between Transposes: of 4, each
    row takes longer than its arithmetic."""
    channel_norm_elements: float = math.inf
    """Largest tensor for this: 96 x 56 x 56 take 241 µs instead of 359, 4 x 128 x 28 x 28 take 342
    instead of 287, as the Transposes leave the cache."""
    linear_resize_work: float = 0
    """Multiplications for each element of the result, as products with interpolation matrices, from
    which on a linear Resize with channels second is as fast as these products."""
    antialiased_resize_work: float = 0
    """The same for a linear or cubic Resize with antialias."""
    matvecs: float = math.inf
    """Fewest products of small matrices with a vector each that elementwise products and sums are
    faster for: 10,000 of 8 x 8 take 0.2 ms, by MatMul 0.55 ms."""
    matvec_elements: float = 0
    """Elements of the largest such matrix, and terms of the largest products of vectors with a
    vector each that Mul and ReduceSum compute: MatMul takes two more nodes there."""
    integer_matmul_work: float = math.inf
    """Multiplications of a product of i32 matrices from which on products of their parts in f64 are
    faster: 0.17 and 0.22 ms for 128 x 128, 0.75 and 1.75 ms for 256 x 256."""
    max_pool_window: float = 1024
    """Elements of the largest window of a MaxPool. It takes time in proportion to the product of
    the window's extents, pooling axis by axis to its logarithm."""
    conv_pool_window: float = 1024
    """The same for sums over windows, made by Conv."""
    ordered_scatter_elements: float = 0
    """Elements of updates up to which ScatterND surely works in one thread, in order: updates may
    then have equal targets. The prober measures it, with a factor of two in hand. 0: none."""
    ordered_scatter_copies: float = 1
    """Elements of an operand that may be copied for each element of updates that such a ScatterND
    takes: ScatterElements takes 4 to 12 ns for an element, a copy 0.2 ns."""
    dft_stage: float = 1 << 20
    """What one more stage of a Fourier transform costs, in multiplications for each element.
    Measured with 8 to 64 rows of 64 to 16,384 elements, f32 and f64."""

    # -- terms of float sums, where `Flags.naive_sums` --------------------------------------------

    outer_sum_terms: float = 128
    """Terms from which on a sum over other axes than the last ones is split: a running sum of n
    terms is off by up to n / 2 ULP."""
    inner_sum_terms: float = 128
    """The same for the last axes, which a runtime may add in several lanes."""
    cumulative_sum_terms: float = 4096
    """Longest axis of floats of one CumSum: its error is 0.5 of the f32 tolerance at 10,000
    elements, 4 at 100,000; sums of blocks stay below 0.4 up to 1,000,000 and take as long."""
    normalized_terms: float = 1 << 17
    """Terms that a normalization operator adds: it is off by 6e-6 at 200,000 and by 1.5e-4 at
    2,000,000."""


@dataclass(frozen=True)
class Flags:
    """Properties of a runtime that kernels alone do not show, each with a workaround or a rule."""

    naive_sums: bool = False
    """Float sums are running sums, which lose digits when they are long."""
    naive_variance: bool = False
    """LayerNormalization and InstanceNormalization compute the variance as the mean of squares less
    the square of the mean."""
    ignores_domains: bool = False
    """Functions such as Exp and Log give numbers for NaN and outside their domains."""
    loses_nan: bool = False
    """ReduceMax and ReduceMin, and LogSoftmax in f64, give a number where there is a NaN."""
    inlines_branches: bool = False
    """When it loads a model, it inlines branches whose conditions follow from constants, and
    crashes if such branches are nested."""
    folds_batch_norm: bool = False
    """BatchNormalization computes x * f + (b - mean * f), which loses the digits that x and the
    mean share."""
    fuses_cast_transposes: bool = False
    """When it loads a model, it fuses a Transpose of half floats, the Cast after it and a MatMul,
    and crashes."""
    rounds_half: bool = False
    """The kernels of f16 arithmetic round after each operator. Where they do not, this arithmetic
    goes through f32, see `hlo2onnx.options.Options.half`."""
    slow_half: bool = False
    """Kernels of f16 and bf16 are slower than those of f32. With `half="fast"` both are computed in
    f32."""
    sums_in_f64: bool = False
    """Reductions add integers in f64 and saturate: they are right if f64 holds all sums."""
    reduces_in_f32: bool = False
    """Reductions of integers are computed in f32: they are right if f32 holds all results."""
    saturates_int8: bool = False
    """On some processors products of quantized numbers saturate, unless the session is told to
    compute them exactly."""
    slow_rnn: bool = False
    """RNN is slower than a Loop (7 times at 256 trips, batch 4, width 128: 6.0 and 0.9 ms)."""
    sequential_top_k: bool = False
    """TopK sorts a row in one thread, however long it is."""
    slow_transposes: bool = False
    """Transpose takes 0.2 to 0.4 µs for each of many small matrices, and copies element by element
    where several axes move."""
    slow_where: bool = False
    """Where takes a branch for each element: 10 times as long where the conditions are random. So
    does ONNX Runtime 1.32; in 1.31 arithmetic takes 1.6 times as long as Where."""
    fuses_attention: bool = False
    """Attention is faster than the operators that it replaces, or the only form of them that the
    runtime fuses. ONNX Runtime on the CPU takes 0.5 to 0.9 of the time: 36 and 71 ms for 8 heads of
    64 features and 900 tokens, 26 and 46 µs for one query and 128 keys. OpenVINO takes longer."""
    expands_attention: bool = False
    """No kernel has Attention from opset 25 on: ONNX Runtime 1.32 expands it to 50 nodes. A step of
    a beam search takes 1.4 times as long as with MatMul and Softmax."""
    images_only: bool = False
    """Resize in other modes than "nearest" takes the last two axes, or the inner two of four."""

    # -- control flow -----------------------------------------------------------------------------

    no_loop: bool = False
    """Loop, or a Loop that a condition ends, does not run or gives wrong results. Loops become
    Scans that read their rows, with an If where a condition ends them; without Scan, they are
    unrolled."""
    no_scan: bool = False
    """Scan, or a Scan from the last row to the first, does not run or gives wrong results."""
    no_if: bool = False
    """If does not run, or gives wrong results."""
    no_outer_values_in_scans: bool = False
    """The body of a Scan cannot read values of the graph around it."""

    # -- devices ----------------------------------------------------------------------------------

    shares_memory: bool = False
    """The device computes in the memory of the CPU: nodes without a kernel run on the fallback as
    they are, without copies."""

    # -- numbers ----------------------------------------------------------------------------------

    unstable_top_k: bool = False
    """TopK gives equal elements in any order, not the first one first."""
    pads_top_k: bool = False
    """TopK of floats takes elements of the largest finite magnitude for padding."""
    rejects_unread_rows: bool = False
    """A Conv with one window along an axis does not compile if elements or padding lie behind."""
    flushes_denormals: bool = False
    """Products with denormal floats are zero."""
    misorders_nan: bool = False
    """Greater, Max, Min and Clip with a NaN give any result. Unless `nan="xla"` is asked for, Max,
    Min and Clip count as right all the same."""
    flattens_empty_constants: bool = False
    """A constant without elements is taken for a scalar."""
    clamps_in_f32: bool = False
    """Min of Max of i32 numbers, and Max of Min, with constants is computed in f32."""
    fuses_comparisons: bool = False
    """Where with i32 numbers is computed in f32 after a comparison, IsInf or IsNaN."""
    narrows_i64: bool = False
    """64-bit integers are computed in 32 bits. Then the kernels that are right within limits are
    used where the integers fit into f32."""
    narrows_f64: bool = False
    """f64 is computed in f32. Then no kernel of f64 counts as right."""
