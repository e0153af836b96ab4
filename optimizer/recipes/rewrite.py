"""Changes to the expressions themselves that a schedule asks for: single-pass forms and cheaper arithmetic."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from optimizer.recipes.ir import Node, Program
from optimizer.recipes.schedule import Schedule


def rewrite(program: Program, schedule: Schedule, language: str) -> Program:
    """The program with the schedule's arithmetic. Nothing that the schedule does not ask for changes."""
    if schedule.online_softmax:
        program = with_online_softmax(program)
    if schedule.moments != "two_pass":
        program = with_single_pass_moments(program, schedule.moments)
    if schedule.reciprocal_multiply:
        program = with_reciprocals(program)
    if schedule.fast_math:
        program = with_fast_math(program, language)
    if schedule.fma_contract and language == "opencl":
        program = with_fma(program)
    if schedule.flush_denormals and language == "opencl":
        program = with_flushed_loads(program)
    return program


class _Editor:
    """Adds nodes to a copy of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = dict(program.nodes)
        self._next = max(self.nodes, default=0) + 1

    def add(self, kind: str, op: str, like: Node, args: tuple[int, ...], value: object = None) -> int:
        node_id, self._next = self._next, self._next + 1
        axes = like.axes if kind != "const" else ()
        self.nodes[node_id] = Node(node_id, kind, op, args, like.dtype, axes, like.origin, value=value)
        return node_id

    def const(self, like: Node, value: float) -> int:
        return self.add("const", "const", like, (), value)

    def redirect(self, changes: dict[int, int]) -> None:
        """Every use of a key becomes a use of its value, outputs included."""
        for node_id, node in list(self.nodes.items()):
            args = tuple(changes.get(arg, arg) if node_id != changes.get(arg) else arg for arg in node.args)
            if args != node.args:
                self.nodes[node_id] = dataclasses.replace(node, args=args)
        outputs = tuple(
            dataclasses.replace(output, node=changes.get(output.node, output.node))
            for output in self.program.outputs
        )
        self.program = dataclasses.replace(self.program, outputs=outputs)

    def done(self) -> Program:
        return self.program.replace_nodes(self.nodes)


def _map_ops(program: Program, change: Callable[[_Editor, Node], Node | None]) -> Program:
    """Apply ``change`` to each op in order; it may add nodes and returns the node's replacement, or None."""
    editor = _Editor(program)
    for node in program.nodes.values():
        if node.kind == "op":
            replacement = change(editor, node)
            if replacement is not None:
                editor.nodes[node.id] = replacement
    return editor.done()


# single-pass reductions


def softmax_pairs(program: Program) -> list[tuple[Node, Node, bool]]:
    """(max, sum of exponentials relative to it, whether an infinite maximum counts as 0) that one pass can find."""
    found = []
    nodes = program.nodes
    for total in nodes.values():
        if total.kind != "reduce" or total.op != "sum":
            continue
        weight = nodes[total.args[0]]
        if weight.op != "exp" or nodes[weight.args[0]].op != "sub":
            continue
        value, base = nodes[weight.args[0]].args
        peak, finite = nodes[base], False
        if peak.op == "where" and nodes[peak.args[0]].op == "isinf":
            peak, finite = nodes[peak.args[2]], True
        if peak.kind == "reduce" and peak.op == "max" and peak.args[0] == value and peak.dtype == "float32":
            found.append((peak, total, finite))
    return found


def moment_pairs(program: Program) -> list[tuple[Node, Node]]:
    """(sum, sum of squares around the mean) over the same values."""
    found = []
    nodes = program.nodes
    for squares in nodes.values():
        if squares.kind != "reduce" or squares.op != "sum":
            continue
        product = nodes[squares.args[0]]
        if product.op != "mul" or product.args[0] != product.args[1]:
            continue
        centred = nodes[product.args[0]]
        if centred.op != "sub":
            continue
        value, average = centred.args[0], nodes[centred.args[1]]
        if average.op != "div":
            continue
        total, count = nodes[average.args[0]], nodes[average.args[1]]
        if (
            total.kind == "reduce" and total.op == "sum" and total.args[0] == value
            and count.kind == "const" and count.value == program.row_length and program.row_length > 0
        ):  # fmt: skip
            found.append((total, squares))
    return found


def with_online_softmax(program: Program) -> Program:
    pairs = softmax_pairs(program)
    editor = _Editor(program)
    for peak, total, finite in pairs[:1]:
        _merge(editor, "online_softmax", peak, total, finite)
    return editor.done()


def with_single_pass_moments(program: Program, how: str) -> Program:
    kind = "welford" if how == "welford" else "moments"
    editor = _Editor(program)
    for total, squares in moment_pairs(program)[:1]:
        _merge(editor, kind, total, squares, None)
    return editor.done()


def _merge(editor: _Editor, kind: str, first: Node, second: Node, value: object) -> None:
    combined = editor.add("reduce", kind, first, first.args, value)
    parts = [
        editor.add("part", "part", node, (combined,), index) for index, node in enumerate((first, second))
    ]
    editor.redirect({first.id: parts[0], second.id: parts[1]})


# arithmetic


def with_reciprocals(program: Program) -> Program:
    """x / c becomes x * (1 / c) for constants; x / r for row values, whose reciprocal is taken once a row."""

    def change(editor: _Editor, node: Node) -> Node | None:
        if node.op != "div" or not node.dtype.startswith("float"):
            return None
        numerator, denominator = (editor.nodes[arg] for arg in node.args)
        if denominator.kind == "const" and denominator.value not in (0.0, 1.0):
            inverse = editor.const(node, 1.0 / denominator.value)
        elif _once_a_row(program, node, denominator) and numerator.kind != "const":
            one = editor.const(node, 1.0)
            inverse = editor.add("op", "div", denominator, (one, denominator.id))
        else:
            return None
        return dataclasses.replace(node, op="mul", args=(node.args[0], inverse))

    return _map_ops(program, change)


def _once_a_row(program: Program, node: Node, denominator: Node) -> bool:
    return bool(set(node.axes) & set(program.cols)) and not set(denominator.axes) & set(program.cols)


FAST_CUDA = {"exp", "log", "log2", "log10", "sin", "cos", "tan", "pow", "div", "tanh", "erf"}
FAST_OPENCL = {"exp", "log", "pow", "tanh", "erf"}


def with_fast_math(program: Program, language: str) -> Program:
    """Hardware approximations, and short forms of tanh, erf, log1p and expm1."""
    fast = FAST_CUDA if language == "cuda" else FAST_OPENCL

    def change(editor: _Editor, node: Node) -> Node | None:
        if node.dtype != "float32":
            return None
        inner = editor.nodes[node.args[0]]
        if node.op == "tanh" and _is_softplus(editor, inner):
            source = program.nodes[inner.id].args[0]
            return dataclasses.replace(node, op="fast_tanh_softplus", args=program.nodes[source].args)
        if node.op == "log1p":
            total = editor.add("op", "add", node, (node.args[0], editor.const(node, 1.0)))
            return dataclasses.replace(node, op="fast_log", args=(total,))
        if node.op == "expm1":
            grown = editor.add("op", "fast_exp", node, node.args)
            return dataclasses.replace(node, op="sub", args=(grown, editor.const(node, 1.0)))
        return dataclasses.replace(node, op=f"fast_{node.op}") if node.op in fast else None

    def _is_softplus(editor: _Editor, inner: Node) -> bool:
        original = program.nodes.get(inner.id)
        return original is not None and original.op == "log1p" and program.nodes[original.args[0]].op == "exp"

    return _map_ops(program, change)


def with_fma(program: Program) -> Program:
    """a * b + c as one rounded operation, where the product has no other reader."""
    consumers = program.consumers()

    def change(editor: _Editor, node: Node) -> Node | None:
        if node.op != "add" or node.dtype != "float32":
            return None
        for position in (0, 1):
            product = editor.nodes[node.args[position]]
            if product.op == "mul" and len(consumers.get(product.id, [])) == 1 and product.dtype == "float32":
                return dataclasses.replace(node, op="fma", args=(*product.args, node.args[1 - position]))
        return None

    return _map_ops(program, change)


def with_flushed_loads(program: Program) -> Program:
    """Inputs below the normal range count as 0: arithmetic on them is many times slower on a CPU."""
    editor = _Editor(program)
    changes = {}
    for node in program.nodes.values():
        if node.kind == "load" and node.dtype == "float32":
            changes[node.id] = editor.add("op", "flush", node, (node.id,))
    editor.redirect(changes)
    return editor.done()
