"""Only the CUDA backend: C++ names, dynamic shared memory, arenas of other processes, lost contexts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpu_eval.devices import CompileError, DeviceBackend, Module
from gpu_eval.plans import parse_plan
from tests.devices.helpers import compiled, prepare

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]

CPP = r"""
#include <cuda_fp16.h>
#include <cstdint>
template <typename T, int V> __global__ void __launch_bounds__(128) fill(T* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = T(V);
}
template __global__ void fill<float, 3>(float*, int);
namespace tools { __global__ void twice(float* y, int64_t n) { if (threadIdx.x < n) y[threadIdx.x] *= 2; } }
__global__ void mangled(float* y) { y[threadIdx.x] += 0.5f; }
"""


def plan_of(kernels: str, forward: str) -> object:
    return parse_plan(f'language = "cuda"\nkernels = r"""{kernels}"""\n{forward}')


def test_kernels_are_named_as_cpp_names_them(cuda: DeviceBackend) -> None:
    """Template instances, namespaces and mangled functions launch by the names that the source shows."""
    forward = """
def forward(params):
    y = empty((8,))
    launch("fill<float, 4>", grid=1, block=32, args=[y, int32(8)])
    launch("tools::twice", grid=1, block=32, args=[y, int64(8)])
    launch("mangled", grid=1, block=8, args=[y])
    z = empty((4,), dtype="int32")
    launch("fill<int, 7>", grid=1, block=32, args=[z, int32(4)])
    return y, z
"""
    y, z = prepare(cuda, plan_of(CPP, forward), []).run()  # type: ignore[arg-type]
    assert np.array_equal(y, np.full(8, 8.5, np.float32))
    assert np.array_equal(z, np.full(4, 7, np.int32))


def test_only_instance_goes_by_the_plain_name(cuda: DeviceBackend) -> None:
    """A template instantiated once needs no arguments in its name; instantiated twice, it does."""
    module = cuda.compile(CPP, ["fill"])
    assert isinstance(module, Module)
    again = CPP + "template __global__ void fill<int, 1>(int*, int);"
    error = cuda.compile(again, ["fill"])
    assert isinstance(error, CompileError)
    assert "several" in error.message


def test_dynamic_shared_memory_beyond_48_kib(cuda: DeviceBackend) -> None:
    """A launch may ask for as much shared memory as the device can give."""
    kernel = r"""
__global__ void reverse(float* y, int n) {
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[n - 1 - i];
}
"""
    count = min(cuda.limits().max_shared_bytes, 96 * 1024) // 4
    forward = f"""
def forward(params):
    y = empty(({count},))
    launch("reverse", grid=1, block=256, args=[y, int32({count})], shared={count * 4})
    return y
"""
    ready = prepare(cuda, plan_of(kernel, forward), [])  # type: ignore[arg-type]
    assert np.array_equal(ready.run()[0], np.arange(count, dtype=np.float32)[::-1])
    (report,) = ready.executor.kernel_reports()
    assert report.shared_bytes == count * 4
    assert report.occupancy is not None
    assert report.occupancy <= 0.25


def test_writable_device_globals_are_named(cuda: DeviceBackend) -> None:
    """Memory that survives between launches is flagged; constants are not."""
    kernel = "__device__ float memo[4]; __constant__ float c[2] = {1, 2};\n"
    kernel += "__global__ void f(float* y) { y[0] = memo[0] + c[1]; memo[0] = y[1]; }"
    assert compiled(cuda, plan_of(kernel, "def forward(params):\n    return empty((2,))\n")).extra[  # type: ignore[arg-type]
        "device_globals"
    ] == ["memo"]


EXPORTER = """
import sys
import numpy as np
import pycuda.driver as drv
drv.init()
context = drv.Device(0).retain_primary_context()
context.push()
arena = drv.mem_alloc(4096)
drv.memcpy_htod(arena, np.arange(1024, dtype=np.float32))
context.synchronize()
print(bytes(drv.mem_get_ipc_handle(arena)).hex(), flush=True)
sys.stdin.readline()
back = np.empty(1024, np.float32)
drv.memcpy_dtoh(back, arena)
print(float(back[512]), flush=True)
arena.free()
context.pop()
"""


def test_arena_of_another_process_is_used_in_place(cuda: DeviceBackend) -> None:
    """The judge's memory is read and written through its handle, at an offset."""
    child = subprocess.Popen(
        [sys.executable, "-c", EXPORTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        handle = {"kind": "ipc", "handle": child.stdout.readline().strip(), "nbytes": 64}
        first = cuda.from_exchange({**handle, "offset": 1024})
        assert np.frombuffer(cuda.read(first), np.float32).tolist() == list(range(256, 272))
        second = cuda.from_exchange({**handle, "offset": 2048})
        cuda.write(second, np.full(16, -5, np.float32).tobytes())
        child.stdin.write("\n")
        child.stdin.flush()
        assert float(child.stdout.readline()) == -5.0
        assert child.wait(timeout=60) == 0
    finally:
        child.kill()
        child.wait()


WILD = r'''
import os
from gpu_eval.devices import DeviceLost, open_backend
from gpu_eval.plans import bind, parse_plan
text = """
language = "cuda"
kernels = "__global__ void wild(float* y) { y[1ll << 40] = 1.0f; }"
def forward(params):
    y = empty((4,))
    launch("wild", grid=1, block=1, args=[y])
    return y
"""
backend = open_backend("cuda")
plan = parse_plan(text)
program = bind(plan, [], {}, limits=backend.limits())
buffers = {slot.index: backend.alloc(slot.spec.nbytes) for slot in program.judge_slots()}
executor = backend.executor(program, backend.compile(plan.kernels, plan.launch_names), buffers)
try:
    backend.time(executor.run)
    print("nothing happened", flush=True)
except DeviceLost as error:
    print("lost:", error, flush=True)
os._exit(0)
'''


def test_illegal_access_is_a_lost_device(cuda: DeviceBackend) -> None:
    """A wild write ends the context of its own process, under its own name, and no other's."""
    result = subprocess.run(
        [sys.executable, "-c", WILD], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.stdout.startswith("lost:"), result.stdout + result.stderr
    cuda.synchronise()


def test_backend_opens_after_torch_and_leaves_cleanly(cuda: DeviceBackend) -> None:
    """Torch first, then the backend: one context, and an exit without an abort."""
    assert cuda.context is not None  # type: ignore[attr-defined]
    program = (
        "import torch\nx = torch.ones(4, device='cuda')\n"
        "from gpu_eval.devices import open_backend\nbackend = open_backend('cuda')\n"
        "buffer = backend.wrap(x.data_ptr(), 16, x)\nimport struct\n"
        "print(struct.unpack('4f', backend.read(buffer)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "(1.0, 1.0, 1.0, 1.0)"
