"""What the parser accepts and refuses, with the place of each refusal."""

from __future__ import annotations

import re

import pytest

from gpu_eval.plans import PlanError, parse_plan
from gpu_eval.results import LibraryPolicy
from tests.plans.helpers import plan_text

EXAMPLE = '''"""A plan may open with a docstring."""
language = "cuda"  # or "opencl"
kernels = r"""
// a comment that says import os and __class__ is only a comment
template <int V> __global__ void __launch_bounds__(256, 2) bias_gelu(const float* x, float* y, int n) {}
extern "C" __global__ void other(float* y) {}
"""

def prepare(params):
    w = contiguous(transpose(params["linear.weight"], 0, 1))
    return {"w": w, "linear.bias": params["linear.bias"], "rows": w.shape[0]}

def forward(x, mask, params):
    """So may a function."""
    y = empty_like(x)
    rows, cols = x.shape
    total = 1
    for d in range(x.ndim):
        total *= x.shape[d]
    vec = 4 if cols % 4 == 0 and x.dtype == "float32" else 1
    if rows > 4096 or not cols >= 2:
        grid = (cdiv(total, 1024 * vec), 1, 1)
    elif rows == 7:
        pass
    else:
        grid = max(1, min(total // vec, 65535))
    launch("bias_gelu<4>", grid=grid, block=256, args=[x, y, int32(-total & ~1)], shared=vec << 4)
    z = lib.matmul(y, params["w"])
    shape = x.shape[:-1] + (z.shape[-1],)
    return reshape(z, shape), slice(y, 0, 0, rows - 1)
'''


def test_full_vocabulary_is_accepted() -> None:
    """Every documented form parses, comments and docstrings included."""
    plan = parse_plan(EXAMPLE)
    assert plan.language == "cuda"
    assert plan.input_names == ("x", "mask")
    assert plan.kernel_names == ("bias_gelu", "other")
    assert plan.launch_names == ("bias_gelu<4>",)
    assert plan.prepare is not None
    assert re.fullmatch("[0-9a-f]{64}", plan.hash)


def test_line_endings_and_byte_order_mark_do_not_matter() -> None:
    """Files written on other systems parse, and keep their line numbers."""
    assert parse_plan("\ufeff" + EXAMPLE.replace("\n", "\r\n")).launch_names == ("bias_gelu<4>",)
    broken = EXAMPLE.replace("rows, cols = x.shape", "rows, cols = x.__class__")
    with pytest.raises(PlanError) as caught:
        parse_plan(broken.replace("\n", "\r\n"))
    assert caught.value.line == 16


ACCEPTED = {
    "no kernels at all": "return lib.relu(x)",
    "chained comparison": "y = empty_like(x)\nif 0 < x.numel <= 99:\n    y = x\nreturn y",
    "names with underscores": "_y = empty_like(x)\nfor _ in range(2):\n    pass\nreturn _y",
    "return of a tuple": "return x, empty((), dtype='float64')",
    "a banned word inside a name": "import_me = empty_like(x)\nreturn import_me",
    "non-ASCII in a comment": "# \u00b5s per launch: fast\nreturn x",
    "kernel chosen by shape": 'launch("copy" if x.ndim else "copy", grid=1, block=1, args=[])\nreturn x',
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_honest_forms_are_accepted(body: str) -> None:
    """A parser that refuses honest plans is as broken as one that is fooled."""
    parse_plan(plan_text(body))


# name: (one line of forward's body, column of the refusal, words of its sentence)
REFUSED_LINES = {
    "import": ("import os", 5, "imports"),
    "from import": ("from os import path", 5, "imports"),
    "while": ("while True: pass", 5, "while"),
    "attribute escape": ("y = x.__class__", 9, "__class__"),
    "attribute method": ("y = x.data_ptr()", 9, "only the plan's own functions"),
    "fact as call": ("n = x.numel()", 9, "not a call"),
    "unknown call": ("y = eval(x)", 9, "eval() is not allowed"),
    "close misspelling": ("y = empty_lik(x)", 9, "did you mean empty_like"),
    "call of a string": ("y = 'abc'.format(1)", 9, "only the plan's own functions"),
    "lambda": ("y = (lambda: 1)", 10, "lambda"),
    "comprehension": ("y = [i for i in range(3)]", 9, "comprehension"),
    "generator": ("y = min(i for i in range(3))", 12, "comprehension"),
    "f-string": ("y = f'{x}'", 9, "f-string"),
    "bytes": ("y = b'abc'", 9, "bytes"),
    "complex": ("y = 1j", 9, "complex"),
    "ellipsis": ("y = ...", 9, "ellipsis"),
    "walrus": ("y = (z := 3)", 10, ":="),
    "star": ("y = min(*x.shape)", 13, "star"),
    "double star": ("y = empty(**x)", 17, "star"),
    "annotation": ("y: int = 3", 5, "annotations"),
    "delete": ("del x", 5, "Delete"),
    "global": ("global x", 5, "Global"),
    "assert": ("assert x", 5, "Assert"),
    "raise": ("raise x", 5, "Raise"),
    "try": ("try: pass\n    finally: pass", 5, "Try"),
    "with": ("with x: pass", 5, "With"),
    "await": ("y = await x", 9, "Await"),
    "yield": ("y = yield 3", 9, "Yield"),
    "nested function": ("def f(): pass", 5, "functions inside functions"),
    "class": ("class A: pass", 5, "classes"),
    "match": ("match x:\n        case 1: pass", 5, "Match"),
    "break": ("for i in range(3): break", 24, "break"),
    "attribute target": ("x.shape = (1,)", 5, "only names"),
    "subscript target": ("params['a'] = x", 5, "only names"),
    "starred target": ("a, *b = x.shape", 5, "only names"),
    "shadowed word": ("min = 3", 5, "cannot be assigned"),
    "shadowed params": ("params = x", 5, "cannot be assigned"),
    "shadowed by loop": ("for lib in range(3): pass", 9, "cannot be assigned"),
    "dunder name": ("y = __builtins__", 9, "not allowed"),
    "word not called": ("y = launch", 9, "must be called"),
    "lib not called": ("y = lib.matmul", 9, "must be called"),
    "lib alone": ("y = lib", 9, "lib.<op>"),
    "unknown library op": ("y = lib.load('x')", 9, "not on the list"),
    "lib through an attribute": ("y = lib.nn.functional(x)", 9, "only the plan's own functions"),
    "matmul operator": ("y = x @ x", 9, "operator"),
    "in": ("y = 3 in x.shape", 9, "comparisons"),
    "is": ("y = x is x", 9, "comparisons"),
    "range outside for": ("y = range(3)", 9, "for loop"),
    "for over a tuple": ("for d in x.shape: pass", 14, "range"),
    "for else": ("for i in range(3): pass\n    else: pass", 11, "else"),
    "bare expression": ("x", 5, "must be a call"),
    "dict in forward": ("y = {'a': x}", 9, "prepare only"),
    "set": ("y = {1, 2}", 9, "Set"),
    "bare return": ("return", 5, "must return"),
    "unknown kernel": ("launch('nope', grid=1, block=1, args=[])", 12, "defines no 'nope'"),
}


@pytest.mark.parametrize(("line", "column", "words"), REFUSED_LINES.values(), ids=REFUSED_LINES.keys())
def test_refused_syntax_names_its_place(line: str, column: int, words: str) -> None:
    """Anything off the allow-list is refused with its line, its column and a sentence."""
    text = plan_text("z = 1\n@@").replace("@@", line)
    with pytest.raises(PlanError) as caught:
        parse_plan(text, filename="mine.plan.py")
    error = caught.value
    first = text[: text.index("z = 1")].count("\n") + 2
    extra = 1 if line.startswith("for i in range(3): pass\n") else 0
    assert (error.line, error.column) == (first + extra, column), str(error)
    assert words in error.message
    assert str(error).startswith(f"mine.plan.py:{error.line}:{error.column}: ")


TOP = 'language = "cuda"\nkernels = ""\n'
FORWARD = "def forward(x, params):\n    return x\n"

REFUSED_TOP = {
    "empty": ("", 1, "language"),
    "no forward": (TOP, 1, "no forward"),
    "no kernels": ('language = "cuda"\n' + FORWARD, 1, "kernels"),
    "no language": ('kernels = ""\n' + FORWARD, 1, "language"),
    "unknown language": ('language = "hip"\nkernels = ""\n' + FORWARD, 1, "'hip'"),
    "language not a string": ("language = 3\nkernels = ''\n" + FORWARD, 1, "string literal"),
    "computed kernels": ('language = "cuda"\nkernels = "a" + "b"\n' + FORWARD, 2, "string literal"),
    "formatted kernels": ('language = "cuda"\nkernels = f"{3}"\n' + FORWARD, 2, "string literal"),
    "given twice": (TOP + 'language = "opencl"\n' + FORWARD, 3, "twice"),
    "other name": (TOP + "threads = 3\n" + FORWARD, 3, "at top level"),
    "top-level code": (TOP + "print(1)\n" + FORWARD, 3, "at top level"),
    "top-level import": (TOP + "import os\n" + FORWARD, 3, "at top level"),
    "other function": (TOP + "def helper(x):\n    return x\n" + FORWARD, 3, "helper"),
    "async forward": (TOP + "async def forward(x, params):\n    return x\n", 3, "at top level"),
    "decorator": (TOP + "@cache\n" + FORWARD, 3, "decorators"),
    "default": (TOP + "def forward(x, params=3):\n    return x\n", 3, "plain positional"),
    "star argument": (TOP + "def forward(*x, params):\n    return x\n", 3, "plain positional"),
    "keyword argument": (TOP + "def forward(x, *, params):\n    return x\n", 3, "plain positional"),
    "positional only": (TOP + "def forward(x, /, params):\n    return x\n", 3, "plain positional"),
    "annotated argument": (TOP + "def forward(x: int, params):\n    return x\n", 3, "annotations"),
    "annotated return": (TOP + "def forward(x, params) -> int:\n    return x\n", 3, "annotations"),
    "no params": (TOP + "def forward(x):\n    return x\n", 3, "forward(x, ..., params)"),
    "prepare with inputs": (
        TOP + "def prepare(x, params):\n    return params\n" + FORWARD,
        3,
        "prepare(params)",
    ),
    "argument named like a word": (
        TOP + "def forward(slice, params):\n    return slice\n",
        3,
        "cannot be assigned",
    ),
    "not Python": (TOP + "def forward(x, params:\n    return x\n", 3, "not valid Python"),
    "unclosed string": (TOP + FORWARD + 's = "abc\n', 5, "never ends"),
    "null character": (TOP + "# \x00\n" + FORWARD, 3, "control character"),
    "escape sequence": (TOP + "# \x1b[31m\n" + FORWARD, 3, "control character"),
    "look-alike letter": (TOP + FORWARD.replace("return x", "return \u0445"), 4, "CYRILLIC SMALL LETTER HA"),
    "full-width digit": (
        TOP + FORWARD.replace("return x", "return x.shape[\uff10]"),
        4,
        "FULLWIDTH DIGIT ZERO",
    ),
    "bidirectional override": (TOP + "# \u202e\n" + FORWARD, 3, "invisible"),
    "zero-width space in kernels": ('language = "cuda"\nkernels = "a\u200bb"\n' + FORWARD, 2, "invisible"),
    "lone surrogate": (TOP + "# \ud800\n" + FORWARD, 3, "not valid Unicode"),
}


@pytest.mark.parametrize(("text", "line", "words"), REFUSED_TOP.values(), ids=REFUSED_TOP.keys())
def test_refused_top_level_names_its_line(text: str, line: int, words: str) -> None:
    """Only the four top-level names exist, and deceiving characters are found before parsing."""
    with pytest.raises(PlanError) as caught:
        parse_plan(text)
    assert caught.value.line == line, str(caught.value)
    assert words in caught.value.message


BOMBS = {
    "deep brackets": "y = " + "(" * 5000 + "1" + ")" * 5000,
    "deep tuples": "y = " + "(" * 60 + ")" * 60,
    "deep unary": "y = " + "-" * 50_000 + "1",
    "deep not": "y = " + "not " * 10_000 + "1",
    "long sum": "y = " + "+".join(["1"] * 20_000),
    "deep power": "y = " + "**".join(["2"] * 5000),
    "deep attribute": "y = x" + ".shape" * 5000,
    "deep conditional": "y = " + "1 if 1 else " * 3000 + "1",
    "giant integer": "y = " + "9" * 5000,
    "giant integer with underscores": "y = " + "9_" * 2500 + "9",
    "giant hexadecimal": "y = 0x" + "f" * 100_000,
    "many statements": "z = 1\n" * 30_000 + "y = 1",
    "long text": "# " + "a" * 500_000 + "\ny = 1",
    "deep blocks": "\n".join("    " * depth + "if 1:" for depth in range(99)) + "\n" + "    " * 99 + "y = 1",
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS.keys())
def test_oversized_plans_are_refused_not_crashed(body: str) -> None:
    """Size and depth are bounded before they can hurt the interpreter."""
    with pytest.raises(PlanError):
        parse_plan(plan_text(body + "\nreturn x"))


def test_moderate_nesting_is_accepted() -> None:
    """The bounds leave room for real expressions."""
    parse_plan(plan_text("y = " + "(" * 30 + "1" + ")" * 30 + "\nz = " + "+".join(["1"] * 40) + "\nreturn x"))


def test_library_policy_is_checked_at_the_call() -> None:
    """An operator that forbids library calls refuses the plan at the place of the call."""
    text = plan_text("y = 1\nreturn lib.matmul(x, x)")
    parse_plan(text)
    with pytest.raises(PlanError, match="forbidden") as caught:
        parse_plan(text, library=LibraryPolicy.FORBID)
    assert caught.value.column == 12
