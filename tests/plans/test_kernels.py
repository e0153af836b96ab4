"""What is read off kernel source: names, and includes that reach outside the toolkit."""

from __future__ import annotations

import pytest

from gpu_eval.plans import PlanError, parse_plan
from gpu_eval.plans.kernels import check_includes, kernel_names
from tests.plans.helpers import plan_text

NAMES = {
    "plain": ("cuda", "__global__ void k(float* x) {}", ("k",)),
    "extern C": ("cuda", 'extern "C" __global__ void k() {}', ("k",)),
    "extern C block": (
        "cuda",
        'extern "C" { __global__ void a() {} static __global__ void b() {} }',
        ("a", "b"),
    ),
    "launch bounds": ("cuda", "__global__ void __launch_bounds__(256, 4) k() {}", ("k",)),
    "bounds before void": ("cuda", "__global__ __launch_bounds__((1 << 8)) void k() {}", ("k",)),
    "template": ("cuda", "template <typename T, int V>\n__global__ void\nk(T* x) {}", ("k",)),
    "void first": ("cuda", "void __global__ k(int n) {}", ("k",)),
    "in a namespace": ("cuda", "namespace a { __global__ void k() {} }", ("k",)),
    "declared and defined": ("cuda", "__global__ void k(int);\n__global__ void k(int n) {}", ("k",)),
    "in a comment": (
        "cuda",
        "// __global__ void no() {}\n/* __global__ void no2() {} */ __global__ void k() {}",
        ("k",),
    ),
    "in a string": ("cuda", 'const char* s = "__global__ void no()"; __global__ void k() {}', ("k",)),
    "apostrophe in a comment": ("cuda", "// don't\n__global__ void k() {}\n// it's", ("k",)),
    "opencl": ("opencl", "__kernel void a(int n) {} kernel void b(int n) {}", ("a", "b")),
    "opencl attribute": (
        "opencl",
        "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void k(int n) {}",
        ("k",),
    ),
    "raw string": ("cuda", 'const char* s = R"x(__global__ void no() " )x"; __global__ void k() {}', ("k",)),
    "identifier before a string": ("cuda", 'FORR"a" __global__ void k() {}', ("k",)),
    "unended comment": ("cuda", "__global__ void k() {} /* __global__ void no() {}", ("k",)),
    "none": ("cuda", "__device__ float f(float x) { return x; }", ()),
}


@pytest.mark.parametrize(("language", "source", "names"), NAMES.values(), ids=NAMES.keys())
def test_kernel_names(language: str, source: str, names: tuple[str, ...]) -> None:
    """Kernels are found by their plain names, whatever stands between qualifier and name."""
    found = kernel_names(source, language)
    assert found.names == names
    assert found.complete


def test_names_made_by_macros_are_left_to_the_compiler() -> None:
    """A source that pastes its kernel names together is not refused for what a text search cannot see."""
    source = "#define MAKE(T) __global__ void copy_##T(T* x) {}\nMAKE(float)"
    assert not kernel_names(source, "cuda").complete
    body = 'launch("copy_float", grid=1, block=1, args=[x])\nreturn x'
    assert parse_plan(plan_text(body, kernels=source)).launch_names == ("copy_float",)


REFUSED_SOURCES = {
    "absolute": '#include "/etc/passwd"',
    "absolute in brackets": "#include </etc/passwd>",
    "parent": '#include "../secrets.h"',
    "parent inside": "#include <a/../../b.h>",
    "spaces": '  #   include   "/etc/passwd"',
    "spliced": '#inc\\\nlude "/etc/passwd"',
    "digraph": '%:include "/etc/passwd"',
    "trigraph": '??=include "/etc/passwd"',
    "comment between": '#/* x */include "/etc/passwd"',
    "computed": "#define F </etc/passwd>\n#include F",
    "embed": '#embed "/etc/passwd"',
    "incbin": 'asm(".incbin \\"/etc/passwd\\"");',
    "home": '#include "~/x.h"',
    "drive": '#include "c:/x.h"',
    "include_next": '#include_next "/etc/passwd"',
    "line": '#line 1 "/etc/passwd"',
    "line marker": '# 1 "/etc/passwd"',
    "computed line": '#define F 1 "/etc/passwd"\n#line F',
    "has_include": '#if __has_include("/etc/passwd")',
    "has_include computed": "#if __has_include(F)",
    "has_include parent": "#if __has_include(<../x.h>)",
}


@pytest.mark.parametrize("source", REFUSED_SOURCES.values(), ids=REFUSED_SOURCES.keys())
@pytest.mark.parametrize("language", ["cuda", "opencl"])
def test_sources_that_read_files_are_refused(source: str, language: str) -> None:
    """A compiler error must not carry a file of the host into a log."""
    with pytest.raises(PlanError) as caught:
        parse_plan(plan_text("return x", kernels=f"int a;\n{source}\n", language=language))
    assert caught.value.line >= 4


BOMBS = {
    "comment openings": "/*" * 190_000,
    "quote openings": "\\'" * 190_000,
    "raw openings": 'R"x(' * 90_000,
    "qualifiers": "__global__ " * 30_000,
    "attributes": "__global__ __attribute__(" * 15_000,
    "defines": "#define x \\\n" * 30_000,
    "includes": "#include <a>\n" * 28_000,
    "backslashes": "\\" * 380_000,
}


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS.keys())
def test_scans_stay_linear(source: str) -> None:
    """A source made to stall a text search is read as quickly as any other."""
    kernel_names(source, "cuda")
    check_includes(source, 1, "plan")


def test_toolkit_headers_are_accepted() -> None:
    """The toolkit's own headers, and harmless mentions of the refused words, pass."""
    source = (
        "#line 7\n#if __has_include(<cuda_fp8.h>)\n#endif\n"
        "#include <cuda_fp16.h>\n#include <cooperative_groups/reduce.h>\n# include <cub/cub.cuh>\n"
        '// #include "/etc/passwd" is what we do not do\nconst char* s = "#include </x>";\n'
        "int including; #define HASH 3\n"
    )
    parse_plan(plan_text("return x", kernels=source))
