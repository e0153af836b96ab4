"""Compiling CUDA plans on a machine that has a toolkit but no GPU, and reading what came out."""

from __future__ import annotations

import pytest

from gpu_eval.devices import CompileError, DeviceUnavailable, Module
from gpu_eval.devices.cubin import demangled, plain_symbol, read_cubin
from gpu_eval.devices.cuda_compile import compile_check, compile_cuda
from gpu_eval.devices.cuda_headers import find_nvcc
from gpu_eval.devices.cuda_run import COPY_NAMES, COPY_SOURCE
from gpu_eval.plans import Plan, parse_plan

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc on this machine")

SOURCE = r"""
#include <cuda_fp16.h>
#include <cstdint>
#include <cfloat>
__device__ float memo[4];
__constant__ float table[4] = {1, 2, 3, 4};
template <int V, typename T> __global__ void gain(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * T(V) + memo[0] + table[1];
    memo[1] = n;
}
namespace tools { __global__ void twice(float* y, int64_t n, double d) { y[n] = d + FLT_MAX; } }
extern "C" __global__ void plain(float* y, float s, int n) { y[n] = expf(s); }
"""


def plan_of(source: str, launches: list[str]) -> Plan:
    lines = "\n".join(f'    launch("{name}", grid=1, block=1, args=[])' for name in launches)
    forward = f"def forward(x, params):\n{lines}\n    return x\n"
    return parse_plan(f'language = "cuda"\nkernels = r"""{source}"""\n{forward}')


@needs_nvcc
def test_plan_compiles_without_a_gpu() -> None:
    """Kernels are found by plain, qualified and instantiated names, with registers and parameter sizes."""
    module = compile_check(plan_of(SOURCE, ["gain<4, float>", "gain<8u, float>", "tools::twice", "plain"]))
    assert isinstance(module, Module)
    assert module.kernels["gain<4, float>"].parameter_bytes == (8, 8, 4)
    assert module.kernels["tools::twice"].parameter_bytes == (8, 8, 8)
    assert module.kernels["plain"].parameter_bytes == (8, 4, 4)
    assert all(facts.registers for facts in module.kernels.values())
    assert all(facts.spill_bytes == 0 for facts in module.kernels.values())
    assert module.extra["device_globals"] == ["memo"]


@needs_nvcc
def test_broken_plan_says_where() -> None:
    """The compiler's first error is the sentence, and no path of the host is in the log."""
    error = compile_check(plan_of("__global__ void k(float* x) {\n  x[0] = nothing;\n}", ["k"]))
    assert isinstance(error, CompileError)
    assert "kernels.cu(2)" in error.message
    assert "nothing" in error.message
    assert "/tmp" not in error.log


@needs_nvcc
def test_ambiguous_template_is_refused() -> None:
    """Two instances cannot both be meant by the plain name."""
    instances = "template __global__ void gain<1, float>(const float*, float*, int);\n"
    assert isinstance(compile_check(plan_of(SOURCE + instances, ["gain"])), Module)
    instances += "template __global__ void gain<2, float>(const float*, float*, int);\n"
    error = compile_check(plan_of(SOURCE + instances, ["gain"]))
    assert isinstance(error, CompileError)
    assert "several" in error.message


@needs_nvcc
def test_host_copy_kernels_compile() -> None:
    """The copies that the host itself launches hold the layout that it packs."""
    compiled = compile_cuda(COPY_SOURCE, COPY_NAMES, "sm_90a")
    assert not isinstance(compiled, CompileError), compiled
    assert {kernel.parameter_bytes for kernel in compiled.kernels.values()} == {(8, 8, 8, 136)}


def test_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither NVRTC nor nvcc: one sentence that names both."""
    import gpu_eval.devices.cuda_compile as module

    def missing(*_: object) -> None:
        raise module._NoCompiler("not here")

    monkeypatch.setattr(module, "_nvrtc", missing)
    monkeypatch.setattr(module, "_nvcc", missing)
    with pytest.raises(DeviceUnavailable, match=r"nvrtc: not here; nvcc: not here"):
        module.compile_cuda(SOURCE, ["plain"], "sm_90")


def test_only_cuda_plans_are_checked() -> None:
    """An OpenCL plan has nothing for nvcc."""
    plan = parse_plan('language = "opencl"\nkernels = ""\ndef forward(x, params):\n    return x\n')
    with pytest.raises(ValueError, match="only CUDA"):
        compile_check(plan)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("plain", "plain"),
        ("_Z1kPf", "k"),
        ("_Z10scale_rowsILi4EfEvPKT0_PS0_i", "scale_rows"),
        ("_ZN5tools1mEPfxsd", "m"),
        ("_ZN5tools5inner4funcILi8EEEvPf", "func"),
        ("_ZN12_GLOBAL__N_11kEPf", "k"),
        ("_ZL1kPf", "k"),
        ("_Z", "_Z"),
    ],
)
def test_plain_symbol(symbol: str, name: str) -> None:
    """Mangled names give back the function's own name."""
    assert plain_symbol(symbol) == name


def test_demangled_asks_the_system() -> None:
    """Template arguments come back as the source spells them, where a C++ library is there to ask."""
    text = demangled("_Z1kILi4EfEvPKT0_PS0_i")
    assert text is None or text.startswith("void k<4, float>(")
    assert demangled("not mangled") is None


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(20), b"\x7fELF\x02\x01" + b"\xff" * 100]
)
def test_damaged_cubins_are_refused(data: bytes) -> None:
    """Foreign bytes never become an index error."""
    with pytest.raises(ValueError, match="cubin"):
        read_cubin(data)
