"""What differs between CUDA C++ and OpenCL C, expression by expression.

OpenCL computes on explicit vectors (float8), CUDA on scalars inside an unrolled loop over the lanes of a wide load.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from optimizer.recipes.emit.code import (
    ATOM,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    COMPARE,
    EQUAL,
    PRODUCT,
    SUM,
    TERNARY,
    UNARY,
    Expr,
    number,
)  # fmt: skip
from optimizer.recipes.ir import Node

_INFIX = {
    "add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT), "lt": ("<", COMPARE),
    "le": ("<=", COMPARE), "gt": (">", COMPARE), "ge": (">=", COMPARE), "eq": ("==", EQUAL), "ne": ("!=", EQUAL),
    "and": ("&", BIT_AND), "or": ("|", BIT_OR), "xor": ("^", BIT_XOR),
}  # fmt: skip
_FUNCTIONS = {
    "abs": "fabs", "round": "rint", **{name: name for name in (
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
        "erf erfc floor ceil trunc pow fmod atan2 copysign fma isnan isinf"
    ).split()},
}  # fmt: skip

QUICK = ("tanh", "tanh_softplus", "erf")  # on CUDA from one __expf; see `emit.quick`

# Operations whose C text names an operand more than once; those operands become variables first.
REPEATS_OPERANDS = {"max", "min", "isnan", "flush"}


class Dialect(ABC):
    """Turns one operation into C. ``width`` is the vector width of the values at hand."""

    name: str
    types: dict[str, str]

    def type_of(self, dtype: str, width: int = 1) -> str:
        return self.types[dtype]

    def storage_type(self, dtype: str) -> str:
        """The element type in memory: bool tensors are bytes."""
        return "unsigned char" if dtype == "bool" else self.types[dtype]

    def splat(self, expr: Expr, dtype: str, width: int) -> str:
        """The operand where C wants all operands of one type."""
        return expr.text

    def literal(self, node: Node) -> Expr:
        text = number(node.value, node.dtype)
        return Expr(text, UNARY if text.startswith("-") else ATOM, uniform=True)

    def apply(self, node: Node, args: Sequence[Expr], dtypes: Sequence[str], width: int) -> Expr:
        """``node``'s operation on C operands of the given dtypes."""
        uniform = all(arg.uniform for arg in args)
        width = 1 if uniform else width
        expr = self._apply(node.op, node.dtype, list(args), list(dtypes), width)
        return Expr(expr.text, expr.strength, uniform)

    def _apply(self, op: str, dtype: str, args: list[Expr], dtypes: list[str], width: int) -> Expr:
        operand = dtypes[0]
        if op == "copy":
            return args[0]
        if op == "cast":
            return self.cast(args[0], operand, dtype, width)
        if op in ("and", "or", "xor"):
            args = [Expr(self.splat(arg, "bool", width), arg.strength) for arg in args]
        if op in _INFIX:
            sign, strength = _INFIX[op]
            return Expr(f"{args[0].at(strength)} {sign} {args[1].at(strength + 1)}", strength)
        if op == "neg":
            return Expr(f"-{args[0].at(ATOM)}", UNARY)
        if op == "not":
            return Expr(f"!{args[0].at(ATOM)}", UNARY)
        if op == "where":
            return self.select(args[0], args[1], args[2], dtype, width)
        if op in ("max", "min"):
            return self._extreme(op, args, dtypes, dtype, width)
        if op == "flush":
            tiny = Expr(
                f"{self.function('fabs', [args[0]], dtype, width)} < {number(2.0**-126, dtype)}", COMPARE
            )
            zero = Expr(f"{args[0].at(PRODUCT)} * {number(0.0, dtype)}", PRODUCT)  # keeps the sign
            return self.select(tiny, zero, args[0], dtype, width)
        if op == "abs" and not operand.startswith("float"):
            return Expr(f"abs({args[0].text})")
        if op.startswith("fast_"):
            return self.fast(op.removeprefix("fast_"), args, dtype, width)
        if op == "isnan":
            return Expr(f"{args[0].at(SUM)} != {args[0].at(SUM)}", EQUAL)
        return Expr(self.function(_FUNCTIONS[op], args, operand, width))

    def _extreme(self, op: str, args: list[Expr], dtypes: list[str], dtype: str, width: int) -> Expr:
        """NaN in either operand wins, as in torch; `fmax` would drop it."""
        a, b = args
        sign = "<" if op == "max" else ">"
        if _is_number(b.text) or not dtype.startswith("float"):
            return self.select(Expr(f"{a.at(SUM)} {sign} {b.at(SUM)}", COMPARE), b, a, dtype, width)
        other = ">" if op == "max" else "<"
        condition = Expr(f"({a.at(SUM)} {other} {b.at(SUM)}) | ({a.at(SUM)} != {a.at(SUM)})", BIT_OR)
        return self.select(condition, a, b, dtype, width)

    def select(self, condition: Expr, yes: Expr, no: Expr, dtype: str, width: int) -> Expr:
        left, right = self.splat(yes, dtype, width), self.splat(no, dtype, width)
        left = left if yes.strength > TERNARY or left != yes.text else f"({left})"
        right = right if no.strength > TERNARY or right != no.text else f"({right})"
        return Expr(f"{condition.at(BIT_OR)} ? {left} : {right}", TERNARY)

    @abstractmethod
    def function(self, name: str, args: Sequence[Expr], dtype: str, width: int) -> str:
        """A call of a standard maths function."""

    @abstractmethod
    def fast(self, name: str, args: list[Expr], dtype: str, width: int) -> Expr:
        """The hardware's approximation of an operation."""

    @abstractmethod
    def cast(self, arg: Expr, source: str, target: str, width: int) -> Expr:
        """A value of another dtype; bool counts as 0 and 1."""


def _is_number(text: str) -> bool:
    text = text.lstrip("-")
    return text == "INFINITY" or (text[:1].isdigit() and "NAN" not in text)


class CudaDialect(Dialect):
    name = "cuda"
    types = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long", "bool": "bool"}

    def function(self, name: str, args: Sequence[Expr], dtype: str, width: int) -> str:
        suffix = "f" if dtype == "float32" and name not in ("isinf",) else ""
        return f"{name}{suffix}({', '.join(arg.text for arg in args)})"

    def fast(self, name: str, args: list[Expr], dtype: str, width: int) -> Expr:
        if name == "div":
            return Expr(f"__fdividef({args[0].text}, {args[1].text})")
        if name in QUICK:
            return Expr(f"quick_{name}({args[0].text})")
        return Expr(f"__{name}f({', '.join(arg.text for arg in args)})")

    def cast(self, arg: Expr, source: str, target: str, width: int) -> Expr:
        if target == "bool":
            return Expr(f"{arg.at(SUM)} != 0", EQUAL)
        return Expr(f"({self.types[target]}){arg.at(UNARY)}", UNARY)


class OpenclDialect(Dialect):
    name = "opencl"
    types = {"float32": "float", "float64": "double", "int32": "int", "int64": "long", "bool": "int"}

    def type_of(self, dtype: str, width: int = 1) -> str:
        return self.types[dtype] + (str(width) if width > 1 else "")

    def storage_type(self, dtype: str) -> str:
        return "uchar" if dtype == "bool" else self.types[dtype]

    def splat(self, expr: Expr, dtype: str, width: int) -> str:
        if width == 1 or not expr.uniform:
            return expr.text
        text = f"-{expr.at(ATOM)}" if dtype == "bool" else expr.text  # a vector's true is -1
        return f"({self.type_of(dtype, width)})({text})"

    def function(self, name: str, args: Sequence[Expr], dtype: str, width: int) -> str:
        return f"{name}({', '.join(self.splat(arg, dtype, width) for arg in args)})"

    def fast(self, name: str, args: list[Expr], dtype: str, width: int) -> Expr:
        if name == "pow":
            logarithm = self.function("log2", [args[0]], dtype, width)
            inner = Expr(f"{args[1].at(PRODUCT)} * {logarithm}", PRODUCT, args[0].uniform and args[1].uniform)
            return Expr(self.function("exp2", [inner], dtype, width))
        suffix = str(width) if width > 1 else ""
        return Expr(f"quick_{name}{suffix}({args[0].text})")

    def cast(self, arg: Expr, source: str, target: str, width: int) -> Expr:
        if target == "bool":
            return Expr(f"{arg.at(SUM)} != {number(0, source)}", EQUAL)
        if width == 1:
            return Expr(f"({self.types[target]}){arg.at(UNARY)}", UNARY)
        if source == "bool":
            one = Expr(number(1, target), uniform=True)
            zero = Expr(number(0, target), uniform=True)
            return self.select(arg, one, zero, target, width)
        suffix = "_rtz" if source.startswith("float") and not target.startswith("float") else ""
        return Expr(f"convert_{self.type_of(target, width)}{suffix}({arg.text})")


DIALECTS: dict[str, Dialect] = {"cuda": CudaDialect(), "opencl": OpenclDialect()}
