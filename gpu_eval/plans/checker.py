"""The allow-list: which syntax and which names a plan's functions may use."""

from __future__ import annotations

import ast
import difflib
import re

from gpu_eval.plans.arithmetic import ArithmeticRefused, checked
from gpu_eval.plans.errors import PlanError
from gpu_eval.plans.library import LIBRARY

FACTS = ("shape", "ndim", "numel", "dtype")
CALLS = (
    "empty",
    "zeros",
    "empty_like",
    "reshape",
    "transpose",
    "slice",
    "contiguous",
    "launch",
    "int32",
    "int64",
    "float32",
    "float64",
    "cdiv",
    "min",
    "max",
    "range",
)
RESERVED = frozenset((*CALLS, "lib", "params", "language", "kernels", "forward", "prepare"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_STATEMENTS = (ast.Assign, ast.AugAssign, ast.For, ast.If, ast.Return, ast.Expr, ast.Pass)
_EXPRESSIONS = (
    ast.Constant,
    ast.Name,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Subscript,
    ast.Slice,
    ast.Attribute,
    ast.Call,
)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_BINARY = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.Pow)
_BINARY_BITS = (ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)
_WORDS = {
    ast.While: "while loops are not allowed; use for ... in range(n)",
    ast.Import: "imports are not allowed",
    ast.ImportFrom: "imports are not allowed",
    ast.Lambda: "lambda is not allowed",
    ast.JoinedStr: "f-strings are not allowed",
    ast.ListComp: "comprehensions are not allowed",
    ast.GeneratorExp: "comprehensions are not allowed",
    ast.SetComp: "comprehensions are not allowed",
    ast.DictComp: "comprehensions are not allowed",
    ast.Starred: "star arguments are not allowed",
    ast.NamedExpr: ":= is not allowed",
    ast.FunctionDef: "functions inside functions are not allowed",
    ast.ClassDef: "classes are not allowed",
    ast.AnnAssign: "annotations are not allowed",
    ast.Break: "break is not allowed",
    ast.Continue: "continue is not allowed",
}


def check_function(function: ast.FunctionDef, filename: str, *, allow_library: bool) -> None:
    """Raise PlanError at the first node that is not on the list. Types and values are `bind`'s to check."""
    _Checker(filename, allow_library, function.name).check(function)


def launch_name_literals(function: ast.FunctionDef) -> list[ast.Constant]:
    """Every string literal inside the first argument of a launch, in order of appearance."""
    found = []
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "launch"
            and node.args
        ):
            found += [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
    found = [literal for literal in found if isinstance(literal.value, str)]
    return sorted(found, key=lambda literal: (literal.lineno, literal.col_offset))


class _Checker:
    def __init__(self, filename: str, allow_library: bool, where: str) -> None:
        self.filename = filename
        self.allow_library = allow_library
        self.where = where

    def fail(self, node: ast.AST, message: str) -> PlanError:
        return PlanError(
            message, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1, self.filename
        )

    def check(self, function: ast.FunctionDef) -> None:
        self.check_signature(function)
        body = function.body
        first = body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            body = body[1:]
        for statement in body:
            self.statement(statement)

    def check_signature(self, function: ast.FunctionDef) -> None:
        if function.decorator_list:
            raise self.fail(function.decorator_list[0], "decorators are not allowed")
        if getattr(function, "type_params", None):
            raise self.fail(function, "type parameters are not allowed")
        arguments = function.args
        others = (arguments.posonlyargs, arguments.kwonlyargs, arguments.defaults, arguments.kw_defaults)
        if any(others) or arguments.vararg or arguments.kwarg:
            raise self.fail(function, f"{function.name} takes plain positional arguments only")
        names = [argument.arg for argument in arguments.args]
        if not names or names[-1] != "params" or (function.name == "prepare" and len(names) > 1):
            form = "prepare(params)" if function.name == "prepare" else "forward(x, ..., params)"
            raise self.fail(function, f"the form is {form}")
        if function.returns is not None:
            raise self.fail(function.returns, "annotations are not allowed")
        for argument in arguments.args:
            if argument.annotation is not None:
                raise self.fail(argument.annotation, "annotations are not allowed")
        for argument in arguments.args[:-1]:
            self.new_name(argument.arg, argument)

    # statements

    def statement(self, node: ast.stmt) -> None:
        if not isinstance(node, _STATEMENTS):
            raise self.fail(node, _sentence(node))
        getattr(self, "do_" + type(node).__name__.lower())(node)

    def do_pass(self, node: ast.Pass) -> None:
        pass

    def do_assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.target(target)
        self.expression(node.value)

    def do_augassign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.fail(node.target, "only names can be assigned to")
        self.target(node.target)
        self.operator(node, node.op)
        self.expression(node.value)

    def do_for(self, node: ast.For) -> None:
        if node.orelse:
            raise self.fail(node.orelse[0], "for ... else is not allowed")
        if not isinstance(node.target, ast.Name):
            raise self.fail(node.target, "a for loop has one plain name")
        self.target(node.target)
        call = node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"):
            raise self.fail(call, "a for loop runs over range(...) only")
        self.arguments(call)
        for statement in node.body:
            self.statement(statement)

    def do_if(self, node: ast.If) -> None:
        self.expression(node.test)
        for statement in (*node.body, *node.orelse):
            self.statement(statement)

    def do_return(self, node: ast.Return) -> None:
        if node.value is None:
            raise self.fail(node, f"{self.where} must return a value")
        self.expression(node.value)

    def do_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Call):
            raise self.fail(node, "a statement on its own must be a call")
        self.expression(node.value)

    def target(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            self.new_name(node.id, node)
        elif (
            isinstance(node, ast.Tuple)
            and node.elts
            and all(isinstance(item, ast.Name) for item in node.elts)
        ):
            for item in node.elts:
                self.target(item)
        else:
            raise self.fail(node, "only names can be assigned to")

    def new_name(self, name: str, node: ast.AST) -> None:
        self.plain_name(name, node)
        if name in RESERVED:
            raise self.fail(node, f"{name!r} is a word of the plan language and cannot be assigned to")

    def plain_name(self, name: str, node: ast.AST) -> None:
        if not _NAME.match(name) or "__" in name:
            raise self.fail(
                node, f"the name {name!r} is not allowed: letters, digits and single underscores only"
            )

    # expressions

    def expression(self, node: ast.AST) -> None:
        if not isinstance(node, _EXPRESSIONS):
            raise self.fail(node, _sentence(node))
        special = getattr(self, "do_" + type(node).__name__.lower(), None)
        if special:
            special(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)

    def do_constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, (bool, int, float, str, type(None))):
            raise self.fail(node, f"a {type(node.value).__name__} literal is not allowed")
        if isinstance(node.value, (int, float)):
            try:
                checked(node.value)
            except ArithmeticRefused as error:
                raise self.fail(node, str(error)) from None

    def do_name(self, node: ast.Name) -> None:
        self.plain_name(node.id, node)
        if node.id in CALLS:
            raise self.fail(node, f"{node.id} must be called")
        if node.id == "lib":
            raise self.fail(node, "lib is used as lib.<op>(...)")

    def do_dict(self, node: ast.Dict) -> None:
        if self.where != "prepare":
            raise self.fail(node, "a dict is allowed in prepare only")
        for key in node.keys:
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                raise self.fail(key or node, "the keys of a dict are string literals")
        for value in node.values:
            self.expression(value)

    def do_binop(self, node: ast.BinOp) -> None:
        self.operator(node, node.op)
        self.expression(node.left)
        self.expression(node.right)

    def do_compare(self, node: ast.Compare) -> None:
        for comparison in node.ops:
            if not isinstance(comparison, _COMPARISONS):
                raise self.fail(node, "comparisons are ==, !=, <, <=, > and >=")
        for side in (node.left, *node.comparators):
            self.expression(side)

    def do_attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id == "lib":
            raise self.fail(node, "lib.<op> must be called")
        if node.attr not in FACTS:
            raise self.fail(
                node, f"the attribute .{node.attr} is not allowed; a tensor has .{', .'.join(FACTS)}"
            )
        self.expression(node.value)

    def do_call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            if function.id not in CALLS:
                raise self.fail(function, f"{function.id}() is not allowed{_hint(function.id, CALLS)}")
            if function.id == "range":
                raise self.fail(function, "range() belongs into a for loop")
        elif (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "lib"
        ):
            self.library(function)
        elif isinstance(function, ast.Attribute) and function.attr in FACTS:
            raise self.fail(node, f".{function.attr} is a fact, not a call: leave out the brackets")
        else:
            raise self.fail(node, "only the plan's own functions and lib.<op> can be called")
        self.arguments(node)

    def library(self, node: ast.Attribute) -> None:
        if not self.allow_library:
            raise self.fail(node, f"lib.{node.attr}: library calls are forbidden for this operator")
        if node.attr not in LIBRARY:
            raise self.fail(
                node, f"lib.{node.attr} is not on the list of library operations{_hint(node.attr, LIBRARY)}"
            )

    def arguments(self, node: ast.Call) -> None:
        for argument in node.args:
            self.expression(argument)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.fail(keyword.value, "star arguments are not allowed")
            self.expression(keyword.value)

    def operator(self, node: ast.AST, operator: ast.operator) -> None:
        if not isinstance(operator, (*_BINARY, *_BINARY_BITS)):
            raise self.fail(node, "this operator is not allowed")


def _sentence(node: ast.AST) -> str:
    return _WORDS.get(type(node), f"{type(node).__name__} is not allowed in a plan")


def _hint(name: str, known: object) -> str:
    close = difflib.get_close_matches(name, list(known), 1)  # type: ignore[call-overload]
    return f"; did you mean {close[0]}?" if close else ""
