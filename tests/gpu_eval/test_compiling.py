"""Compiling apart from running: the service's process, its cache, and what a hostile source gets out of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_eval.candidates import CandidateFailure
from gpu_eval.compiling.cache import cache_key
from gpu_eval.compiling.messages import code_message, code_of
from gpu_eval.compiling.service import Compiled, CompileService, checked
from gpu_eval.content_cache import ContentCache
from gpu_eval.devices.cubin import read_cubin
from gpu_eval.limits import Limits
from gpu_eval.results import LibraryPolicy, Verdict

ARCH = "sm_90a"
LIMITS = Limits(compile_s=25.0)
CANARY = "canary-7d1f0c-of-the-compiler"
pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="compiles CUDA and finds no nvcc")

TWICE = """
extern "C" __global__ void f(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
Compile = Callable[[str], Compiled]


def plan(kernels: str) -> str:
    return f'''
language = "cuda"
kernels = r"""{kernels}"""

def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256, args=[x, y, int32(x.numel)])
    return y
'''


@pytest.fixture
def service(tmp_path: Path) -> Iterator[CompileService]:
    """A service with an empty cache and nothing warmed up."""
    opened = CompileService(ARCH, LIMITS, kept=0, cache=ContentCache(tmp_path / "kernels"))
    yield opened
    opened.close()


@pytest.fixture
def compile_plan(service: CompileService) -> Compile:
    """Plan text of kernels to code."""
    return lambda kernels: service.compile(plan(kernels), LibraryPolicy.ALLOW, lambda limit: limit)


def failure_of(compile_plan: Compile, kernels: str) -> CandidateFailure:
    with pytest.raises(CandidateFailure) as caught:
        compile_plan(kernels)
    return caught.value


def test_same_content_compiles_once(compile_plan: Compile) -> None:
    """Code of the same kernels is at hand the second time and is the same; other kernels are not mistaken for it."""
    first, second = compile_plan(TWICE), compile_plan(TWICE)
    assert (first.cached, second.cached) == (False, True)
    assert first.code == second.code
    assert [kernel.symbol for kernel in read_cubin(first.code.code).kernels] == ["f"]
    other = compile_plan(TWICE.replace("2.0f", "3.0f"))
    assert not other.cached
    assert other.code.code != first.code.code
    assert other.candidate_hash != first.candidate_hash


def test_failures_are_remembered_with_their_log(compile_plan: Compile) -> None:
    """A source that does not compile says where, by the plan's own lines, now and from the cache."""
    broken = TWICE.replace("2.0f * x[i]", "two * x[i]")
    for _ in range(2):
        failure = failure_of(compile_plan, broken)
        assert failure.verdict is Verdict.COMPILE_ERROR
        assert '"two"' in failure.message
        assert "kernels.cu(4)" in failure.log


@pytest.mark.parametrize("key", ["source", "names", "arch", "toolkit"])
def test_key_holds_all_that_decides_the_code(key: str) -> None:
    """A new toolkit or architecture never gets old code."""
    parts = {"source": TWICE, "names": ["f"], "arch": ARCH, "toolkit": "nvcc 13.0"}
    other = {**parts, key: ["g"] if key == "names" else "other"}
    keys = [
        cache_key(each["source"], each["names"], each["arch"], each["toolkit"])  # type: ignore[arg-type]
        for each in (parts, other)
    ]
    assert keys[0] != keys[1]


def test_damaged_or_swapped_entries_are_misses(tmp_path: Path) -> None:
    """An entry is used only for the key that it was written for, and only whole."""
    cache = ContentCache(tmp_path)
    keys = [digit * 64 for digit in "ab"]
    for key in keys:
        cache.put(key, {"error": key, "log": ""})
    assert cache.get(keys[0]) == {"error": keys[0], "log": ""}
    paths = [next(tmp_path.glob(f"*/{key}*")) for key in keys]
    content = paths[0].read_bytes()
    paths[1].write_bytes(content)
    assert cache.get(keys[1]) is None
    paths[0].write_bytes(content[:-1] + b" ")
    assert cache.get(keys[0]) is None
    assert cache.get(keys[0]) is None  # and gone


def test_cache_keeps_within_its_bounds(tmp_path: Path) -> None:
    """The least recently used go first, by number and by size."""
    cache = ContentCache(tmp_path, max_bytes=40_000, max_entries=30)
    first = f"{0:064x}"
    for number in range(200):
        cache.put(f"{number:064x}", {"error": "x" * 500, "log": ""})
        cache.get(first)
        os.utime(next(tmp_path.glob(f"*/{first}*")), (2**31, 2**31))
    files = [path for path in tmp_path.glob("*/*") if path.is_file()]
    assert len(files) <= 32
    assert cache.get(first) is not None
    cache.put("f" * 64, {"error": "x" * 50_000, "log": ""})
    assert cache.get("f" * 64) is None


def test_folder_that_cannot_be_used_costs_only_time(tmp_path: Path) -> None:
    """A cache that nobody can write is a miss, never a failure."""
    (tmp_path / "file").write_text("not a folder")
    cache = ContentCache(tmp_path / "file" / "kernels")
    cache.put("a" * 64, {"error": "", "log": ""})
    assert cache.get("a" * 64) is None


@pytest.mark.parametrize(
    ("kernels", "hidden"),
    [
        ("__device__ int calls;\n" + TWICE.replace("2.0f", "(float)(++calls)"), "calls"),
        (
            "namespace cuda { __device__ int calls; }\n" + TWICE.replace("2.0f", "(float)(++cuda::calls)"),
            "calls",
        ),
        (
            "#define J(a, b) a##b\n__device__ int J(ca, lls);\n" + TWICE.replace("2.0f", "(float)(++calls)"),
            "calls",
        ),
        (
            TWICE.replace("if (i", "static __device__ int calls; calls++; if (i").replace(
                "2.0f", "(float)calls"
            ),
            "calls",
        ),
    ],
    ids=["plain", "namespace", "pasted", "local"],
)
def test_variables_that_outlive_a_launch_are_reported(
    compile_plan: Compile, kernels: str, hidden: str
) -> None:
    """However a variable is hidden, the judge hears of it and loads the code afresh before it times."""
    assert any(hidden in name for name in compile_plan(kernels).code.device_globals)


def test_constant_tables_are_not_reported(compile_plan: Compile) -> None:
    """Constant memory holds nothing that a launch could leave behind."""
    kernels = "__constant__ float two[1] = {2.0f};\n" + TWICE.replace("2.0f", "two[0]")
    assert compile_plan(kernels).code.device_globals == ()


LEAKS = {
    "include": '#include "{path}"\n',
    "include with angles": "#include <{path}>\n",
    "macro include": '#define P "{path}"\n#include P\n',
    "digraph": '%:include "{path}"\n',
    "continued": '#inc\\\nlude "{path}"\n',
    "climbing": '#include "../../../../../../../../../../../..{path}"\n',
    "has_include": '#if __has_include("{path}")\n#error {canary_found}\n#endif\n',
    "incbin": 'asm(".incbin \\"{path}\\"");\n',
    "embed": 'const char t[] = {{\n#embed "{path}"\n}};\n',
    "line": '#line 1 "{path}"\n#error here\n',
}


@pytest.mark.parametrize("form", LEAKS)
@pytest.mark.parametrize("target", ["canary", "/etc/passwd", "/proc/self/environ"])
def test_a_source_reads_no_file(
    service: CompileService,
    compile_plan: Compile,
    tmp_path: Path,
    form: str,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No message, log or code of a source holds a line of a file outside the toolkit, whatever the form."""
    monkeypatch.setenv("HTAM_CANARY_KEY", CANARY)
    planted = tmp_path / "secret.h"
    planted.write_text(f"{CANARY} is not C\n")
    path = str(planted) if target == "canary" else target
    text = LEAKS[form].format(path=path, canary_found="seen-by-has-include") + TWICE
    try:
        compiled = compile_plan(text)
        said = json.dumps(code_message(compiled.code)) + compiled.code.code.decode("latin-1")
    except CandidateFailure as failure:
        said = failure.message + failure.log
    for secret in (CANARY, "root:", "HTAM_", "seen-by-has-include" if target == "canary" else CANARY):
        assert secret not in said


BOMBS = {
    "large initialiser": "__device__ int a[1 << 27] = {1};\n" + TWICE,
    "endless templates": "template <int N> struct T { static const int v = T<N + 1>::v + T<N + 2>::v; };\n"
    "__device__ int t = T<0>::v;\n" + TWICE,
    "macro growth": "".join(
        f"#define A{level} A{level - 1} A{level - 1} A{level - 1} A{level - 1} A{level - 1} A{level - 1}\n"
        for level in range(1, 12)
    )
    + "#define A0 x[0] +\n"
    + TWICE.replace("2.0f", "(A11 1.0f)"),
    "endless constexpr": "constexpr int c(int n) { int s = 0; for (int i = 0; i < 2000000000; i++) s ^= i; "
    "return s; }\n"
    "__device__ const int t[c(1) & 7 | 1] = {1};\n" + TWICE,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_compile_bombs_end_as_verdicts(service: CompileService, compile_plan: Compile, bomb: str) -> None:
    """A source that would compile for ever or without bound ends as the candidate's failure, and the next compiles."""
    failure = failure_of(compile_plan, BOMBS[bomb])
    assert failure.verdict in (Verdict.COMPILE_ERROR, Verdict.TIMEOUT, Verdict.OUT_OF_MEMORY)
    assert len(failure.message) < 500
    assert not compile_plan(TWICE).cached


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"error": "\x1b[31mred\x07", "log": "\x1b]0;title\x07" + "x" * 100_000},
        {"code": "***", "symbols": {}, "log": "", "compiler": "", "device_globals": [], "seconds": 0},
        {"code": "", "symbols": [], "log": "", "compiler": "", "device_globals": [], "seconds": 0},
    ],
)
def test_answers_of_a_compiler_that_was_taken_over_are_refused_or_cleaned(answer: object) -> None:
    """What a compiler says is data of the source: no control characters, no endless text, no broken form."""
    try:
        entry = checked(answer)
        text = entry["error"] + entry["log"]
    except CandidateFailure as failure:
        text = failure.message + failure.log
    assert "\x1b" not in text
    assert "\x07" not in text
    assert len(text) < 50_000


def test_code_survives_the_way_between_processes(compile_plan: Compile) -> None:
    """Code that was sent is the code that is loaded."""
    code = compile_plan(TWICE).code
    assert code_of(json.loads(json.dumps(code_message(code)))) == code
