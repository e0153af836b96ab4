"""Running results of reductions: how one starts, takes in a value, merges with another and ends.

Formulas: online softmax is Milakov and Gimelshein 2018; the merge of means and squared deviations is Chan, Golub and
LeVeque 1979; the update is Welford 1962. Every one hands NaN on as torch does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.recipes.emit.code import PRODUCT, SUM, Code, Expr, Names, number
from optimizer.recipes.emit.dialect import Dialect
from optimizer.recipes.ir import Node, Program

LOWEST = "-3.4028234663852886e38f"  # finite, so that a row of -inf never computes inf - inf


@dataclass(frozen=True)
class State:
    """The variables of one running reduction. ``names`` in the order of `COMPONENTS`."""

    node: Node
    names: tuple[str, ...]

    def indexed(self, index: str) -> State:
        return State(self.node, tuple(f"{name}[{index}]" for name in self.names))


COMPONENTS: dict[str, tuple[str, ...]] = {
    "sum": ("",), "prod": ("",), "max": ("",), "min": ("",), "online_softmax": ("max", "sum"),
    "moments": ("sum", "squares"), "welford": ("mean", "squares", "count"),
}  # fmt: skip


class States:
    """Writes the C of running reductions."""

    def __init__(self, program: Program, dialect: Dialect, names: Names, fast: bool, long: bool) -> None:
        self.program = program
        self.dialect = dialect
        self.names = names
        self.long = long
        self.fast = fast

    def exp(self, text: str, width: int) -> str:
        """exp of a float32 expression."""
        if self.dialect.name == "cuda":
            return f"{'__expf' if self.fast else 'expf'}({text})"
        return f"quick_exp{width if width > 1 else ''}({text})" if self.fast else f"exp({text})"

    def new(self, node: Node, wish: str, suffix: str = "") -> State:
        parts = COMPONENTS[node.op]
        return State(
            node, tuple(self.names.new(f"{wish}{'_' + part if part else ''}{suffix}") for part in parts)
        )

    def dtype(self, node: Node) -> str:
        """The type that a reduction runs in: long chains of float32 additions run in float64."""
        wide = self.long and node.dtype == "float32" and node.op in ("sum", "moments")
        return "float64" if wide else node.dtype

    def initial(self, node: Node) -> tuple[str, ...]:
        zero = number(0, self.dtype(node))
        if node.op in ("max", "min") and not node.dtype.startswith("float"):
            low, high = {"int32": ("(-2147483647 - 1)", "2147483647")}.get(
                node.dtype, ("(-9223372036854775807L - 1)", "9223372036854775807L")
            )
            return (low if node.op == "max" else high,)
        return {
            "sum": (zero,), "prod": (number(1, node.dtype),), "max": ("-INFINITY",), "min": ("INFINITY",),
            "online_softmax": (LOWEST, zero), "moments": (zero, zero), "welford": (zero, zero, zero),
        }[node.op]  # fmt: skip

    def type_of(self, node: Node, width: int) -> str:
        return self.dialect.type_of(self.dtype(node), self.lanes(node, width))

    def lanes(self, node: Node, width: int) -> int:
        """Lanes of a running result over vectors of ``width``: four float64 fill a CPU's vector register."""
        return min(width, 4) if self.dtype(node) != node.dtype else width

    def _add(self, code: Code, name: str, text: str, node: Node, width: int) -> None:
        """Add a float32 value or vector to a running sum."""
        lanes = self.lanes(node, width)
        if lanes < width:
            term = self.names.new("term")
            code.add(f"const {self.dialect.type_of(node.dtype, width)} {term} = {text};")
            code.add(f"{name} += convert_double{lanes}({term}.lo) + convert_double{lanes}({term}.hi);")
        elif width > 1 and self.dtype(node) != node.dtype:
            code.add(f"{name} += convert_double{width}({text});")
        else:
            code.add(f"{name} += {text};")

    def declare(self, code: Code, state: State, width: int) -> None:
        kind = self.type_of(state.node, width)
        for name, value in zip(state.names, self.initial(state.node), strict=True):
            start = value if width == 1 else f"({kind})({value})"
            code.add(f"{kind} {name} = {start};")

    def declare_array(self, code: Code, state: State, count: int, width: int) -> None:
        """``count`` accumulators; ``state`` holds the arrays' names."""
        kind = self.type_of(state.node, width)
        for name, value in zip(state.names, self.initial(state.node), strict=True):
            start = value if width == 1 else f"({kind})({value})"
            code.add(f"{kind} {name}[{count}] = {{{', '.join([start] * count)}}};")

    # taking in a value

    def update(self, code: Code, state: State, value: Expr, width: int, shift: str = "") -> None:
        """Take in one value (CUDA) or a vector of values (OpenCL). ``shift``: the row's shift, for moments."""
        kind = state.node.op
        names = state.names
        if kind == "sum":
            text = value.text if width == 1 else self.dialect.splat(value, "float32", width)
            self._add(code, names[0], text, state.node, width)
        elif kind == "prod":
            code.add(f"{names[0]} *= {value.at(PRODUCT + 1)};")
        elif kind in ("max", "min"):
            self._extreme(
                code, names[0], self._variable(code, value, state.node.dtype, width), kind, state, width
            )
        elif kind == "online_softmax":
            self._online(code, names, self._variable(code, value, "float32", width), width)
        elif kind == "moments":
            name = self.names.new("shifted")
            kind = self.dialect.type_of(state.node.dtype, 1 if value.uniform else width)
            code.add(f"const {kind} {name} = {value.at(SUM)} - {shift};")
            self._add(code, names[0], name, state.node, width)
            self._add(code, names[1], f"{name} * {name}", state.node, width)
        else:
            self._welford(code, state, value, width)

    def _variable(self, code: Code, value: Expr, dtype: str, width: int) -> str:
        if value.text.replace("_", "").isalnum() and not value.uniform:
            return value.text
        name = self.names.new("value")
        text = self.dialect.splat(value, dtype, width)
        code.add(f"const {self.dialect.type_of(dtype, width)} {name} = {text};")
        return name

    def _extreme(self, code: Code, running: str, value: str, kind: str, state: State, width: int) -> None:
        sign = ">" if kind == "max" else "<"
        if state.node.dtype.startswith("float"):
            test = f"({value} {sign} {running}) | ({value} != {value})"
        else:
            test = f"{value} {sign} {running}"
        code.add(f"{running} = {test} ? {value} : {running};")

    def _online(self, code: Code, names: Sequence[str], value: str, width: int) -> None:
        """A new maximum is rare after a few elements, so rescaling stays behind a branch."""
        peak, total = names
        higher = f"({value} > {peak}) | ({value} != {value})"
        if width == 1:
            with code.block(f"if ({higher})"):
                code.add(f"{total} *= {self.exp(f'{peak} - {value}', 1)};")
                code.add(f"{peak} = {value};")
        else:
            kind = self.dialect.type_of("float32", width)
            with code.block(f"if (any({higher}))"):
                raised = self.names.new("new_max")
                code.add(f"const {kind} {raised} = {higher} ? {value} : {peak};")
                code.add(f"{total} *= {self.exp(f'{peak} - {raised}', width)};")
                code.add(f"{peak} = {raised};")
        code.add(f"{total} += {self.exp(f'{value} - {peak}', width)};")

    def _welford(self, code: Code, state: State, value: Expr, width: int) -> None:
        mean, squares, count = state.names
        delta = self.names.new("delta")
        kind = self.type_of(state.node, width)
        code.add(f"{count} += {number(1, state.node.dtype)};")
        name = self._variable(code, value, state.node.dtype, width)
        code.add(f"const {kind} {delta} = {name} - {mean};")
        code.add(f"{mean} += {delta} / {count};")
        code.add(f"{squares} += {delta} * ({name} - {mean});")

    # merging

    def merge(
        self, code: Code, into: Sequence[str], other: Sequence[str], node: Node, width: int = 1
    ) -> None:
        """``into`` takes in ``other``; both are C expressions of the state's components."""
        kind = node.op
        if kind in ("sum", "moments"):
            for mine, theirs in zip(into, other, strict=True):
                code.add(f"{mine} += {theirs};")
        elif kind == "prod":
            code.add(f"{into[0]} *= {other[0]};")
        elif kind in ("max", "min"):
            self._extreme(code, into[0], other[0], kind, State(node, tuple(into)), width)
        elif kind == "online_softmax":
            peak = self.names.new("both_max")
            code.add(
                f"const {self.dialect.type_of('float32', width)} {peak} = "
                f"({other[0]} > {into[0]}) | ({other[0]} != {other[0]}) ? {other[0]} : {into[0]};"
            )
            mine = f"{into[1]} * {self.exp(f'{into[0]} - {peak}', width)}"
            theirs = f"{other[1]} * {self.exp(f'{other[0]} - {peak}', width)}"
            code.add(f"{into[1]} = {mine} + {theirs};")
            code.add(f"{into[0]} = {peak};")
        else:
            self._merge_welford(code, into, other, node, width)

    def _merge_welford(
        self, code: Code, into: Sequence[str], other: Sequence[str], node: Node, width: int
    ) -> None:
        kind = self.type_of(node, width)
        total, delta, share = (self.names.new(name) for name in ("both_count", "mean_gap", "share"))
        zero, one = number(0, node.dtype), number(1, node.dtype)
        one = one if width == 1 else f"({kind})({one})"
        code.add(f"const {kind} {total} = {into[2]} + {other[2]};")
        code.add(f"const {kind} {delta} = {other[0]} - {into[0]};")
        code.add(f"const {kind} {share} = {other[2]} / ({total} > {zero} ? {total} : {one});")
        code.add(f"{into[0]} += {delta} * {share};")
        code.add(f"{into[1]} += {other[1]} + {delta} * {delta} * {into[2]} * {share};")
        code.add(f"{into[2]} = {total};")

    # results

    def results(self, state: State, count: str, shift: str = "") -> list[str]:
        """The row values that a finished state stands for: one, or one for each part. ``count``: the row length."""
        names, dtype = state.names, state.node.dtype
        if state.node.op == "online_softmax":
            peak = f"{names[1]} == 0.0f ? -INFINITY : {names[0]}"
            total = f"{names[0]} == INFINITY ? INFINITY : {names[1]}" if state.node.value else names[1]
            return [peak, total]
        cast = f"({self.dialect.types[dtype]}){count}"
        if state.node.op == "moments":
            gap = f"{names[1]} - {names[0]} * {names[0]} / {cast}"
            overflow = f"({names[1]} == INFINITY) & (fabs({names[0]}) < INFINITY)"
            squares = f"{overflow} ? INFINITY : ({gap} < 0 ? 0 : {gap})"
            return [f"{names[0]} + {cast} * {shift}", squares]
        if state.node.op == "welford":
            return [f"{names[0]} * {cast}", names[1]]
        return [names[0] if self.dtype(state.node) == dtype else f"(float){names[0]}"]
