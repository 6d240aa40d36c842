"""The rewrite engine: rules anchored on operators, applied until none fires."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.loop_facts import LoopFacts
from hlo2onnx.ir.notes import merges_unrounded, note_rewrite
from hlo2onnx.ir.replace import can_replace, remove_makers, remove_unread, replace
from hlo2onnx.ir.traversal import all_nodes, nodes_in, replace_input, use_count
from hlo2onnx.ir.values import const_of, dtype_of, size_of
from hlo2onnx.ir.weights import SMALL_ELEMENTS
from hlo2onnx.raising.refusals import Refusal as Refusal
from hlo2onnx.raising.refusals import need as need
from hlo2onnx.raising.refusals import needed as needed
from hlo2onnx.raising.sources import ARGUMENT as ARGUMENT
from hlo2onnx.raising.sources import CONSTANT as CONSTANT
from hlo2onnx.raising.sources import KEEP_CONSTANTS, NUMBERS, OTHER, sources_in_order
from hlo2onnx.targets import Target
from hlo2onnx.targets.builder import TargetBuilder

MAX_FIRINGS_PER_NODE = 50
"""A rule set that rewrites more often than this per node of the graph does not terminate."""


FEW_READERS = 16
"""If a value has more readers, they are not queued again: that would take quadratic time."""


_Operands = Sequence[oir.Value | None]


class Rewriter(TargetBuilder):
    """The builder that rules use, with the facts and the target they may ask about.

    New nodes are placed before the node being rewritten and inherit its name and provenance.

    Attributes:
        relaxed: How often each rule merged nodes that round in the program and not in the model.
        listed: See `nodes_of`.
        owners: The node of each body, before the rules of this phase.
        sources: For each node that was visited its operands, its type, and their sources.
        kept: What rules have found out about nodes, by their names, until a rule fires.
    """

    def __init__(self, model: oir.Model, target: Target, watch: Watch | None = None) -> None:
        super().__init__(model.graph, model.graph.opset_imports[""], target)
        self.adopt(model.graph)
        self.watch = watch
        self.relaxed: Counter[str] = Counter()
        self.listed: dict[tuple[oir.Graph, str], list[oir.Node]] = {}
        self.facts, self.facts_time = LoopFacts(model.graph), 0
        self._numbers: dict[oir.Value, float | None] = {}
        self.kept: dict[tuple[str, oir.Node], Any] = {}
        self.owners: Mapping[oir.Graph, oir.Node] = {}
        self.sources: dict[oir.Node, tuple[_Operands, oir.DataType, tuple[str, ...]]] = {}

    def forget_facts(self, time: int) -> None:
        """Drops the facts: what was unknown may be known after the graph has changed.

        Args:
            time: The facts see the changes up to this time.
        """
        self.facts, self.facts_time = LoopFacts(self.main_graph, self.owners), time
        self._numbers.clear()
        self.sources.clear()  # or it would hold removed constants

    def number_of(self, value: oir.Value) -> float | None:
        """Which of `NUMBERS` all elements of a constant are, which may be moved, or `OTHER`; None
        for other values, and without elements."""
        while (maker := value.producer()) is not None:
            source = maker.inputs[0] if maker.op_type in KEEP_CONSTANTS else None
            if source is None:
                return None
            value = source
        if value not in self._numbers:
            array, found = const_of(value), None
            if array is not None and array.size:
                item = array.item(0)
                found = next((x for x in NUMBERS if item == x), OTHER)
                if found is not OTHER and array.size > 1 and not (array == item).all():
                    found = OTHER
            self._numbers[value] = found
        return self._numbers[value]

    def reread(self, node: oir.Node, inputs: Sequence[oir.Value]) -> oir.Value:
        """Gives a node with one output other operands, as many as it has, and returns the output.
        Quicker than a copy with them. The last act of a rule, which cannot refuse any more."""
        for index, (old, new) in enumerate(zip(node.inputs, inputs, strict=True)):
            if old is not new:
                replace_input(node, index, new)
        self.made.append(node)
        return node.outputs[0]

    def nodes_of(self, graph: oir.Graph, op_type: str = "") -> Sequence[oir.Node]:
        """The nodes of a graph, or those of an operator, listed once until a rule fires. For rules
        that have not made nodes yet, on loops or branches with thousands of nodes."""
        key = (graph, op_type)
        if key not in self.listed:
            nodes = self.nodes_of(graph) if op_type else nodes_in(graph)
            self.listed[key] = [node for node in nodes if op_type in ("", node.op_type)]
        return self.listed[key]

    def forget_lists(self) -> None:
        """Drops the lists of nodes: a rule has fired."""
        self.listed.clear()
        self.kept.clear()


class Kind(NamedTuple):
    """What `Rule.fits` is asked about, and more.

    Attributes:
        numbers: `Rewriter.number_of` for the operands; empty if no rule for the operator
            `asks_numbers`.
    """

    op_type: str
    sources: frozenset[str]
    dtype: oir.DataType
    numbers: frozenset[float | None]


class Rule(ABC):
    """One rewrite.

    The docstring's first line shows it with an arrow, before -> after. The rest states when it is
    legal.

    Attributes:
        name: Users switch the rule off by this name.
        formerly: Names that the rule had in earlier versions. They stay valid.
        anchors: Operators of the node that the rule looks at first: the last one of the pattern.
        sources: Operators. One of them makes an operand of each node that the rule takes.
            `CONSTANT` counts as one; None stands for any. For several anchors, it may be a mapping
            of them to such sets. The engine does not try the rule on other nodes, which saves two
            of three attempts.
        drops_nan: Whether it changes NaN. Then nan="xla" switches it off.
        phase: A rule is tried only when no rule of an earlier phase fires any more.
        asks_numbers: Whether `narrowed` depends on numbers.
    """

    name: str
    formerly: tuple[str, ...] = ()
    anchors: frozenset[str]
    sources: frozenset[str] | Mapping[str, frozenset[str]] | None = None
    drops_nan: bool = False
    phase: int = 0
    asks_numbers: bool = False

    @property
    def doc(self) -> str:
        """The rewrite, before -> after; and after an empty line when it is legal."""
        return inspect.getdoc(type(self)) or ""

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """Whether the rule may take a node of this operator. The engine asks once for each
        combination, and does not try the rule where it cannot apply.

        Args:
            sources: The sources of all operands of the node, see `sources_of`.
            dtype: The element type of its first result.
        """
        wanted = self.sources
        if isinstance(wanted, Mapping):
            wanted = wanted.get(op_type)
        return wanted is None or not wanted.isdisjoint(sources)

    def narrowed(self, kind: Kind) -> Rule | None:
        """The part of the rule that may take such a node, see `fits`; None if no part may."""
        return self if self.fits(kind.op_type, kind.sources, kind.dtype) else None

    @abstractmethod
    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value | Sequence[oir.Value]:
        """Returns the values that replace the node's outputs.

        Raises:
            Refusal: The rule does not apply here (through `need`). The graph must be unchanged,
                except for nodes without readers.
        """


class Watch(ABC):
    """Sees every attempt of a rule, for a log or an explanation."""

    @abstractmethod
    def rewrite(self, rule: Rule, node: oir.Node, b: Rewriter) -> oir.Value | Sequence[oir.Value]:
        """Returns what `rule.rewrite(node, b)` returns, and raises what it raises."""


def apply_rules(
    model: oir.Model, rules: Iterable[Rule], target: Target, watch: Watch | None = None
) -> Counter[str]:
    """Applies the rules to every node until none fires; returns how often each one did.

    Args:
        watch: Sees every attempt.

    Raises:
        InternalError: Two rules undo each other.
    """
    table = RuleTable(rules)
    nodes = [node for node in all_nodes(model.graph) if node.op_type in table.by_anchor]
    return apply_to(nodes, table, Rewriter(model, target, watch)) if nodes else Counter()


_Key = tuple[str, oir.DataType, tuple[str, ...], tuple[float | None, ...]]

_MOST_KEYS = 1 << 12
"""More are not remembered: a table outlives the translation."""


class RuleTable:
    """Rules by their anchors, sources and numbers.

    Attributes:
        by_anchor: The rules for each operator that they look at first.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.by_anchor: dict[str, list[Rule]] = {}
        self._fitting: dict[_Key, list[Rule]] = {}
        for rule in rules:
            for anchor in rule.anchors:
                self.by_anchor.setdefault(anchor, []).append(rule)
        self._numbered = {
            anchor for anchor, found in self.by_anchor.items() if any(x.asks_numbers for x in found)
        }

    def fitting(self, node: oir.Node, b: Rewriter) -> Sequence[Rule]:
        """The rules for the node's operator that fit its operands and its result."""
        op_type = node.op_type
        rules = self.by_anchor.get(op_type)
        if rules is None:
            return ()
        inputs, known = node.inputs, b.sources.get(node)
        if known is None or known[0] is not inputs:
            known = b.sources[node] = inputs, dtype_of(node.outputs[0]), sources_in_order(node)
        _, dtype, sources = known
        numbers: tuple[float | None, ...] = ()
        if op_type in self._numbered and not KEEP_CONSTANTS.isdisjoint(sources):
            numbers = tuple([b.number_of(x) for x in inputs if x is not None])
        key = (op_type, dtype, sources, numbers)
        found = self._fitting.get(key)
        if found is None:
            if len(self._fitting) >= _MOST_KEYS:
                self._fitting.clear()
            kind = Kind(op_type, frozenset(sources), dtype, frozenset(numbers))
            narrowed = [x.narrowed(kind) for x in rules]
            found = self._fitting[key] = [x for x in narrowed if x is not None]
        return found


@functools.lru_cache(maxsize=32)
def table_of(rules: tuple[Rule, ...]) -> RuleTable:
    """The table of these rules. Most translations use the same."""
    return RuleTable(rules)


def apply_to(nodes: Iterable[oir.Node], rules: RuleTable, rewriter: Rewriter) -> Counter[str]:
    """Applies rules, by their anchors, to these nodes and to those that a rewrite enables.

    Raises:
        InternalError: Two rules undo each other.
    """
    fired: Counter[str] = Counter()
    rewriter.forget_lists()
    pending = deque(node for node in nodes if node.op_type in rules.by_anchor)
    queued = set(pending)
    count, most = 0, MAX_FIRINGS_PER_NODE * (len(pending) + 1)
    with rewriter.at_end(rewriter.main_graph):  # each node moves the builder
        while pending:
            node = pending.popleft()
            queued.discard(node)
            if node.graph is None:
                continue
            winner = _fire(node, rules, rewriter, pending, queued)
            if winner is None:
                continue
            fired[winner.name] += 1
            count += 1
            if count > most:  # one of few nodes may have enabled all others
                most = MAX_FIRINGS_PER_NODE * (sum(1 for _ in all_nodes(rewriter.main_graph)) + 1)
            if count > most:
                raise InternalError(f"the rules do not terminate; the last one was {winner.name}")
    return fired


def _fire(
    node: oir.Node,
    rules: RuleTable,
    rewriter: Rewriter,
    pending: deque[oir.Node],
    queued: set[oir.Node],
) -> Rule | None:
    """Applies the first rule that takes the node, and queues the nodes that it may enable."""
    inputs = node.inputs
    found = _first(node, rules, rewriter)
    if found is None:
        return None
    rule, values = found
    rewriter.forget_lists()
    enabled = [user for output in node.outputs for user in output.consumers()]
    if values[0] is not node.outputs[0]:  # else it reads other operands
        names = [output.name for output in node.outputs]
        replace(node, values)
        _inherit_names(node, names, values, rewriter.made)
    remove_unread(rewriter.made)
    # Rules that count readers must not count readers that are dead.
    less_read = remove_makers([x for x in inputs if x is not None])
    removed = [maker for value in less_read if (maker := value.producer()) and not maker.graph]
    note_rewrite(rewriter.made, rule.name, [node, *removed])
    if merges_unrounded(rewriter.made, [node, *removed]):
        rewriter.relaxed[rule.name] += 1
    less_read = [
        value for value in less_read if not _is_number(value) and use_count(value) <= FEW_READERS
    ]
    enabled += [user for value in less_read for user in value.consumers()]
    for made in rewriter.made:
        if made.graph is not None:
            enabled += [made, *(user for output in made.outputs for user in output.consumers())]
    for other in enabled:
        if other.op_type in rules.by_anchor and other not in queued:
            queued.add(other)
            pending.append(other)
    return rule


def _first(
    node: oir.Node, table: RuleTable, rewriter: Rewriter
) -> tuple[Rule, list[oir.Value]] | None:
    """The first rule that takes the node, and the values that replace the node's outputs."""
    watch = rewriter.watch
    # A watch sees all refusals.
    rules = table.fitting(node, rewriter) if watch is None else table.by_anchor.get(node.op_type)
    if not rules:
        return None
    made = rewriter.made
    rewriter.go_before(node)
    for rule in rules:
        made.clear()
        try:
            if watch is None:
                result = rule.rewrite(node, rewriter)
            else:
                result = watch.rewrite(rule, node, rewriter)
        except Refusal:
            if made:  # equal nodes of each attempt would be shared again and again
                remove_unread(made)
            continue
        values = values_of(result)
        if all(map(can_replace, node.outputs, values)):
            return rule, values
        remove_unread(rewriter.made)
    return None


def values_of(result: oir.Value | Sequence[oir.Value]) -> list[oir.Value]:
    """The result of a rule as a list."""
    return [result] if isinstance(result, oir.Value) else list(result)


def _is_number(value: oir.Value) -> bool:
    """Whether a value is a small constant.

    Thousands of nodes may read one. Finding them takes long, and no rule counts them.
    """
    return value.const_value is not None and (size_of(value) or 0) <= SMALL_ELEMENTS


def _inherit_names(
    old: oir.Node, names: Sequence[str | None], values: Sequence[oir.Value], made: list[oir.Node]
) -> None:
    """Gives new nodes the name of the old one, and its outputs' names."""
    for name, old_output, value in zip(names, old.outputs, values, strict=True):
        producer = value.producer()
        if producer in made and not value.is_graph_output():
            old_output.name, value.name = value.name, name
    first = values[0].producer()
    if first is not None and first in made:
        old.name, first.name = first.name, old.name
