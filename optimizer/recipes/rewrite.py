"""Changes to the expressions themselves that a schedule asks for: single-pass forms and cheaper arithmetic."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from optimizer.recipes.ir import Node, Program
from optimizer.recipes.schedule import Schedule

# erf(x) to 1.5e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
_ERF_P = 0.3275911
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


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


FAST_CUDA = {"exp", "log", "log2", "log10", "sin", "cos", "tan", "pow", "div"}
FAST_OPENCL = {"pow"}


def with_fast_math(program: Program, language: str) -> Program:
    """Hardware approximations, and short forms of tanh, erf, log1p and expm1 made of them."""
    fast = FAST_CUDA if language == "cuda" else FAST_OPENCL

    def change(editor: _Editor, node: Node) -> Node | None:
        if node.dtype != "float32":
            return None
        short = _SHORT.get(node.op)
        if short is not None:
            return short(
                editor, node, "fast_exp" if "exp" in fast else "exp", "fast_log" if "log" in fast else "log"
            )
        if node.op in fast:
            return dataclasses.replace(node, op=f"fast_{node.op}")
        return None

    return _map_ops(program, change)


def _short_tanh(editor: _Editor, node: Node, exp: str, log: str) -> Node:
    two, one = editor.const(node, 2.0), editor.const(node, 1.0)
    grown = editor.add("op", exp, node, (editor.add("op", "mul", node, (node.args[0], two)),))
    share = editor.add("op", "div", node, (two, editor.add("op", "add", node, (grown, one))))
    return dataclasses.replace(node, op="sub", args=(one, share))


def _short_log1p(editor: _Editor, node: Node, exp: str, log: str) -> Node:
    sum_ = editor.add("op", "add", node, (node.args[0], editor.const(node, 1.0)))
    return dataclasses.replace(node, op=log, args=(sum_,))


def _short_expm1(editor: _Editor, node: Node, exp: str, log: str) -> Node:
    grown = editor.add("op", exp, node, node.args)
    return dataclasses.replace(node, op="sub", args=(grown, editor.const(node, 1.0)))


def _short_erf(editor: _Editor, node: Node, exp: str, log: str) -> Node:
    def op(name: str, *args: int) -> int:
        return editor.add("op", name, node, args)

    def const(value: float) -> int:
        return editor.const(node, value)

    size = op("abs", node.args[0])
    t = op("div", const(1.0), op("add", op("mul", size, const(_ERF_P)), const(1.0)))
    series = const(_ERF[0])
    for coefficient in _ERF[1:]:
        series = op("add", op("mul", series, t), const(coefficient))
    tail = op(exp, op("mul", op("neg", size), size))
    value = op("sub", const(1.0), op("mul", op("mul", series, t), tail))
    return dataclasses.replace(node, op="copysign", args=(value, node.args[0]))


_SHORT = {"tanh": _short_tanh, "log1p": _short_log1p, "expm1": _short_expm1, "erf": _short_erf}


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
