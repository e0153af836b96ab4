"""Emits the arithmetic of a tile: one statement for each operation of the operator's graph."""

from __future__ import annotations

from collections.abc import Iterable

from optimizer.recipes.emit.code import ATOM, Code, Expr, Names
from optimizer.recipes.emit.dialect import REPEATS_OPERANDS, Dialect
from optimizer.recipes.ir import Node, Program


class Expressions:
    """Writes the operations that lead to some targets, given the C text of what is already known."""

    def __init__(self, program: Program, dialect: Dialect, names: Names, value_names: dict[int, str]) -> None:
        self.program = program
        self.dialect = dialect
        self.names = names
        self.value_names = value_names

    def emit(self, code: Code, targets: Iterable[int], known: dict[int, Expr], width: int) -> dict[int, Expr]:
        """Write statements for ``targets``; the result maps every computed node to its text.

        Values that one neighbouring operation uses are written in place; all others become constants.
        """
        targets = list(targets)
        env = dict(known)
        needed = [node_id for node_id in self.program.needed_for(targets, stop=known) if node_id not in env]
        uses = self._uses(needed, targets)
        for node_id in needed:
            node = self.program.nodes[node_id]
            if node.kind == "const":
                env[node_id] = self.dialect.literal(node)
                continue
            dtypes = [self.program.nodes[arg].dtype for arg in node.args]
            expr = self.dialect.apply(node, [env[arg] for arg in node.args], dtypes, width)
            if self._in_place(node, uses[node_id], expr):
                env[node_id] = expr
                continue
            name = self.names.new(self.value_names.get(node_id, f"{node.origin}_{node.op}"))
            kind = self.dialect.type_of(node.dtype, 1 if expr.uniform else width)
            code.add(f"const {kind} {name} = {expr.text};")
            env[node_id] = Expr(name, ATOM, expr.uniform)
        return env

    def _uses(self, needed: list[int], targets: list[int]) -> dict[int, list[Node | None]]:
        uses: dict[int, list[Node | None]] = {node_id: [] for node_id in needed}
        for node_id in needed:
            node = self.program.nodes[node_id]
            for arg in node.args:
                if arg in uses:
                    uses[arg].append(node)
        for target in targets:
            if target in uses:
                uses[target].append(None)
        return uses

    def _in_place(self, node: Node, uses: list[Node | None], expr: Expr) -> bool:
        if expr.strength == ATOM and _is_name(expr.text):
            return True  # a copy
        if len(uses) != 1 or uses[0] is None:
            return False
        reader = uses[0]
        return reader.origin == node.origin and reader.op not in REPEATS_OPERANDS and len(expr.text) < 60


def _is_name(text: str) -> bool:
    return text.replace("_", "").isalnum() and not text[0].isdigit()


def origin_names(program: Program) -> dict[int, str]:
    """C names of values: the last node of each graph operation carries the operation's name."""
    found: dict[int, str] = {}
    last: dict[str, int] = {}
    for node in program.nodes.values():
        if node.kind in ("op", "reduce"):
            last[node.origin] = node.id
    for node in program.nodes.values():
        if node.kind in ("op", "reduce", "part"):
            own = last.get(node.origin) == node.id
            found[node.id] = node.origin if own else f"{node.origin}_{_short(program, node)}"
    return found


def _short(program: Program, node: Node) -> str:
    if node.kind == "part":
        combined = program.nodes[node.args[0]]
        names = {
            "online_softmax": ("max", "sum"),
            "moments": ("sum", "squares"),
            "welford": ("sum", "squares"),
        }
        return names[combined.op][node.value]
    return node.op
