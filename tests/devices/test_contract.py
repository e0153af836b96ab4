"""The contract of a device backend, run over every implementation."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gpu_eval.devices import (
    CompileError,
    DeviceBackend,
    LaunchError,
    Module,
    OutOfDeviceMemory,
    make_backend,
)
from gpu_eval.devices.base import LOG_BYTES
from gpu_eval.plans import PlanError
from tests.devices.helpers import compiled, plan_for, prepare

SCALE = """
KERNEL void scale(GLOBAL const float* x, GLOBAL float* y, int n, float s, long long shift, double d) {
    int i = INDEX;
    if (i < n) y[i] = x[i] * s + (float)shift + (float)d;
}
"""
SCALE_FORWARD = """
def forward(x, params):
    y = empty_like(x)
    launch("scale", grid=cdiv(x.numel, 64), block=64,
           args=[x, y, int32(x.numel), float32(2.5), int64(2**33), float64(0.125)])
    return y
"""
ADD_ONE = "KERNEL void add(GLOBAL float* y, int n) { int i = INDEX; if (i < n) y[i] += 1.0f; }"
BROKEN = "KERNEL void f(GLOBAL float* x) { x[0] = nothing; }"
NOTHING_FORWARD = "def forward(x, params):\n    return x"
COPY = """
KERNEL void copy(GLOBAL const float* x, GLOBAL float* y, int n) { int i = INDEX; if (i < n) y[i] = x[i]; }
"""
COPY_FORWARD = """
def forward(x, params):
    y = empty_like(x)
    launch("copy", grid=cdiv(x.numel, 64), block=64, args=[x, y, int32(x.numel)])
    return y
"""


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape).astype(np.float32)


class TestDeviceBackend:
    """What the judge and the runner rely on, whatever the device."""

    def test_facts_describe_the_device(self, backend: DeviceBackend) -> None:
        """Peaks and sizes are there and sane: the roofline divides by them."""
        facts = backend.facts()
        assert facts.kind == backend.kind
        assert facts.name
        assert facts.compute_units >= 1
        assert facts.memory_bytes is not None
        assert facts.memory_bytes > 2**28
        assert facts.peak_bandwidth_gbs is not None
        assert 1 < facts.peak_bandwidth_gbs < 20_000
        assert facts.peak_fp32_gflops is not None
        assert 1 < facts.peak_fp32_gflops < 500_000
        assert facts.peaks_measured == (backend.kind == "opencl")
        assert backend.facts() == facts

    @pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
    def test_kernel_gets_its_arguments(self, backend: DeviceBackend, size: int) -> None:
        """Pointers and all four scalar types arrive, with their alignment, at sizes that do not divide."""
        x = normal(size)
        (y,) = prepare(backend, plan_for(backend.kind, SCALE, SCALE_FORWARD), [x]).run()
        np.testing.assert_allclose(y, x * np.float32(2.5) + np.float32(2.0**33) + np.float32(0.125))

    def test_grid_and_block_count_blocks_and_threads(self, backend: DeviceBackend) -> None:
        """All three dimensions mean the same in both languages."""
        index = (
            "int b = (blockIdx.z * 3 + blockIdx.y) * 2 + blockIdx.x; "
            "int t = (threadIdx.z * 2 + threadIdx.y) * 4 + threadIdx.x;"
            if backend.kind == "cuda"
            else "int b = (get_group_id(2) * 3 + get_group_id(1)) * 2 + get_group_id(0); "
            "int t = (get_local_id(2) * 2 + get_local_id(1)) * 4 + get_local_id(0);"
        )
        kernel = "KERNEL void place(GLOBAL int* y) { " + index + " y[b * 16 + t] = b * 100 + t; }"
        forward = """
def forward(params):
    y = empty((2 * 3 * 4, 16), dtype="int32")
    launch("place", grid=(2, 3, 4), block=(4, 2, 2), args=[y])
    return y
"""
        (y,) = prepare(backend, plan_for(backend.kind, kernel, forward), []).run()
        assert np.array_equal(y, np.arange(24)[:, None] * 100 + np.arange(16))

    def test_compile_error_is_a_value(self, backend: DeviceBackend) -> None:
        """A failed compilation has the compiler's words, bounded, with no path of the host."""
        source = plan_for(backend.kind, BROKEN, NOTHING_FORWARD).kernels
        error = backend.compile(source, ["f"])
        assert isinstance(error, CompileError)
        assert "nothing" in error.message
        assert "nothing" in error.log
        assert "/tmp" not in error.log
        assert ".cache" not in error.log
        flood = "\n".join(f"int a{index} = missing{index};" for index in range(2000))
        error = backend.compile(source + flood, ["f"])
        assert isinstance(error, CompileError)
        assert len(error.log.encode()) <= LOG_BYTES

    def test_missing_kernel_is_a_compile_error(self, backend: DeviceBackend) -> None:
        """A name that compilation did not produce is said at once, not at the launch."""
        plan = plan_for(backend.kind, COPY, COPY_FORWARD)
        error = backend.compile(plan.kernels, ["copy", "absent"])
        assert isinstance(error, CompileError)
        assert "absent" in error.message

    def test_plan_without_kernels_compiles(self, backend: DeviceBackend) -> None:
        """A plan of library calls only has nothing to compile."""
        assert isinstance(backend.compile("", []), Module)

    @pytest.mark.parametrize(
        "args",
        [
            "[x, y]",
            "[x, y, int32(3), int32(3)]",
            "[x, y, x]",
            "[x, int32(3), int32(3)]",
            "[x, y, float64(3.0)]",
            "[]",
        ],
    )
    def test_wrong_arguments_are_refused_before_the_launch(self, backend: DeviceBackend, args: str) -> None:
        """Too few, too many or wrongly sized arguments would read wild memory."""
        forward = COPY_FORWARD.replace("[x, y, int32(x.numel)]", args)
        with pytest.raises(LaunchError, match="copy"):
            prepare(backend, plan_for(backend.kind, COPY, forward), [normal(8)])

    def test_too_many_threads_for_a_kernel_are_refused(self, backend: DeviceBackend) -> None:
        """A kernel that declares its block size cannot be launched with another."""
        opencl = "KERNEL __attribute__((reqd_work_group_size(32, 1, 1))) void"
        wanted = "KERNEL void __launch_bounds__(32)" if backend.kind == "cuda" else opencl
        kernel = COPY.replace("KERNEL void", wanted)
        with pytest.raises(LaunchError):
            prepare(backend, plan_for(backend.kind, kernel, COPY_FORWARD), [normal(256)]).run()

    def test_zeros_are_cleared_in_every_call(self, backend: DeviceBackend) -> None:
        """An accumulating kernel starts from zero each time, in outputs and in temporaries."""
        forward = """
def forward(params):
    y = zeros((70,))
    t = zeros((70,))
    launch("add", grid=2, block=64, args=[y, int32(70)])
    launch("add", grid=2, block=64, args=[t, int32(70)])
    launch("add", grid=2, block=64, args=[t, int32(70)])
    return y, slice(t, 0, 0, 70)
"""
        ready = prepare(backend, plan_for(backend.kind, ADD_ONE, forward), [])
        for _ in range(3):
            y, t = ready.run()
            assert np.array_equal(y, np.ones(70, np.float32))
            assert np.array_equal(t, np.full(70, 2, np.float32))

    @pytest.mark.parametrize(
        "dtype", ["bool", "int8", "float16", "int32", "float32", "int64", "float64", "complex128"]
    )
    def test_strided_views_are_copied_exactly(self, backend: DeviceBackend, dtype: str) -> None:
        """contiguous() and returned views hold the elements that the view names, for every element size."""
        forward = """
def forward(x, params):
    t = transpose(slice(x, 1, 1, 6), 0, 2)
    return contiguous(t), slice(t, 0, 1, 3), reshape(contiguous(transpose(x, 0, 1)), (-1, 3)), x
"""
        x = (
            (np.arange(5 * 7 * 3) % 2 if dtype == "bool" else np.arange(5 * 7 * 3) % 120)
            .astype(dtype)
            .reshape(5, 7, 3)
        )
        first, second, third, fourth = prepare(backend, plan_for(backend.kind, "", forward), [x]).run()
        t = np.swapaxes(x[:, 1:6], 0, 2)
        assert np.array_equal(first, t)
        assert np.array_equal(second, t[1:3])
        assert np.array_equal(third, np.swapaxes(x, 0, 1).reshape(-1, 3))
        assert np.array_equal(fourth, x)

    def test_a_kernel_sees_a_view_at_its_offset(self, backend: DeviceBackend) -> None:
        """A contiguous slice is passed without a copy, at any alignment of its elements."""
        forward = COPY_FORWARD.replace("y = empty_like(x)", "x = slice(x, 0, 3, 20)\n    y = empty_like(x)")
        x = normal(33, 3)
        (y,) = prepare(backend, plan_for(backend.kind, COPY, forward), [x]).run()
        assert np.array_equal(y, x[3:20])

    def test_scalars_and_empty_tensors(self, backend: DeviceBackend) -> None:
        """0-d tensors hold one element; tensors without elements need no special case."""
        forward = """
def forward(x, params):
    y = empty(())
    launch("copy", grid=1, block=1, args=[slice(x, 0, 2, 3), y, int32(1)])
    return y, slice(x, 0, 4, 4), empty((0, 3)), zeros((2, 0))
"""
        y, *rest = prepare(
            backend, plan_for(backend.kind, COPY, forward), [np.arange(5, dtype=np.float32)]
        ).run()
        assert y.shape == ()
        assert y == 2
        assert [array.shape for array in rest] == [(0,), (0, 3), (2, 0)]

    def test_library_calls_and_launches_keep_their_order(self, backend: DeviceBackend) -> None:
        """Kernels, torch operations and copies that feed each other run in order, call after call."""
        forward = """
def forward(x, params):
    a = empty_like(x)
    launch("copy", grid=cdiv(x.numel, 64), block=64, args=[x, a, int32(x.numel)])
    launch("add", grid=cdiv(x.numel, 64), block=64, args=[a, int32(x.numel)])
    b = lib.matmul(a, params["w"])
    launch("add", grid=cdiv(b.numel, 64), block=64, args=[b, int32(b.numel)])
    c = contiguous(transpose(b, 0, 1))
    launch("add", grid=cdiv(c.numel, 64), block=64, args=[c, int32(c.numel)])
    values, where = lib.max(c, dim=1)
    return lib.softmax(c, dim=-1), values, where, lib.sum(lib.cat((c, c), dim=0), dim=(0, 1), dtype="float64")
"""
        plan = plan_for(backend.kind, COPY + ADD_ONE, forward)
        w = normal(12, 9)
        ready = prepare(backend, plan, [normal(33, 12)], {"w": w})
        for seed in range(4):
            x = np.random.default_rng(seed).standard_normal((33, 12)).astype(np.float32)
            ready.set(ready.program.inputs[0] or 0, x)
            soft, values, where, total = ready.run()
            c = (((x + 1) @ w) + 1).T + 1
            e = np.exp(c - c.max(-1, keepdims=True))
            np.testing.assert_allclose(soft, e / e.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(values, c.max(1), rtol=1e-4)
            assert where.dtype == np.int64
            assert np.array_equal(where, c.argmax(1))
            assert total.dtype == np.float64
            np.testing.assert_allclose(total, 2 * c.astype(np.float64).sum(), rtol=1e-4)
        assert ready.program.library_calls == ["matmul", "max", "softmax", "cat", "sum"]

    def test_refused_library_call_is_a_plan_error(self, backend: DeviceBackend) -> None:
        """Shapes that torch does not take are found while binding, at their place in the plan."""
        plan = plan_for(backend.kind, "", "def forward(x, params):\n    return lib.matmul(x, x)")
        with pytest.raises(PlanError, match=r"lib\.matmul") as caught:
            prepare(backend, plan, [normal(3, 4)])
        assert caught.value.column == 12

    def test_prepare_runs_once_for_a_set_of_weights(self, backend: DeviceBackend) -> None:
        """forward sees what prepare made of the weights, until prepare runs again."""
        functions = """
def prepare(params):
    return {"w": contiguous(transpose(params["w"], 0, 1))}

def forward(params):
    w = params["w"]
    y = empty_like(w)
    launch("copy", grid=cdiv(w.numel, 64), block=64, args=[w, y, int32(w.numel)])
    return y
"""
        first, second = normal(4, 6), normal(4, 6) + 1
        ready = prepare(backend, plan_for(backend.kind, COPY, functions), [], {"w": first})
        assert np.array_equal(ready.run()[0], first.T)
        ready.set(ready.program.params["w"], second)
        assert np.array_equal(ready.run()[0], first.T)
        ready.executor.prepare()
        assert np.array_equal(ready.run()[0], second.T)

    def test_writes_past_a_temporary_are_seen(self, backend: DeviceBackend) -> None:
        """Guard bytes around the runner's own tensors name the one that was overrun."""
        forward = """
def forward(x, params):
    honest = empty((5,))
    overrun = empty((5,))
    launch("copy", grid=1, block=8, args=[x, honest, int32(5)])
    launch("copy", grid=1, block=8, args=[x, overrun, int32({count})])
    return empty(())
"""
        for count, broken in ((5, 0), (6, 1)):
            ready = prepare(backend, plan_for(backend.kind, COPY, forward.format(count=count)), [normal(8)])
            ready.run()
            names = ready.executor.broken_guards()
            assert len(names) == broken
            assert all(name.startswith("empty@") for name in names)

    def test_lanes_share_temporaries(self, backend: DeviceBackend) -> None:
        """Several sets of inputs and outputs need one set of temporaries and one prepare."""
        functions = """
def prepare(params):
    return {"w": contiguous(transpose(params["w"], 0, 1))}

def forward(x, params):
    t = empty_like(x)
    launch("copy", grid=cdiv(x.numel, 64), block=64, args=[x, t, int32(x.numel)])
    return lib.add(t, params["w"])
"""
        plan, w = plan_for(backend.kind, COPY, functions), normal(6, 4)
        one = prepare(backend, plan, [normal(4, 6)], {"w": w})
        two = prepare(backend, plan, [normal(4, 6) * 3], {"w": w}, share=one)
        for _ in range(2):
            np.testing.assert_allclose(one.run()[0], normal(4, 6) + w.T)
            np.testing.assert_allclose(two.run()[0], normal(4, 6) * 3 + w.T)

    def test_time_runs_the_call_once_and_to_its_end(self, backend: DeviceBackend) -> None:
        """The work is done when the clock stops, and it is done once."""
        forward = """
def forward(x, params):
    y = empty_like(x)
    launch("copy", grid=cdiv(x.numel, 64), block=64, args=[x, y, int32(x.numel)])
    launch("add", grid=cdiv(x.numel, 64), block=64, args=[y, int32(x.numel)])
    return y
"""
        x = normal(5000)
        ready = prepare(backend, plan_for(backend.kind, COPY + ADD_ONE, forward), [x])
        calls = []
        elapsed = backend.time(lambda: calls.append(ready.executor.run()))
        assert np.array_equal(ready.output(0), x + 1)
        assert len(calls) == 1
        assert elapsed.wall_us > 0
        assert (elapsed.device_us is None) == (backend.kind == "opencl")

    def test_kernel_reports_count_launches(self, backend: DeviceBackend) -> None:
        """One report a kernel, with what the compiler and the device can say."""
        ready = prepare(backend, plan_for(backend.kind, SCALE, SCALE_FORWARD), [normal(1000)])
        (report,) = ready.executor.kernel_reports()
        assert (report.name, report.launches, report.grid, report.block) == (
            "scale",
            1,
            [16, 1, 1],
            [64, 1, 1],
        )
        assert report.shared_bytes == 0
        if backend.kind == "cuda":
            assert report.registers is not None
            assert report.registers > 0
            assert report.spill_bytes == 0
            assert report.occupancy is not None
            assert 0 < report.occupancy <= 1

    def test_exhausted_memory_is_its_own_error(self, backend: DeviceBackend) -> None:
        """An allocation that cannot fit is a verdict, not a crash."""
        with pytest.raises(OutOfDeviceMemory):
            backend.alloc(1 << 60)

    def test_buffers_are_aligned_and_hold_their_bytes(self, backend: DeviceBackend) -> None:
        """Vector loads need the alignment; read and write are exact."""
        for size in (1, 100, 5000):
            buffer = backend.alloc(size)
            assert buffer.pointer % 256 == 0
            content = bytes(index % 251 for index in range(size))
            backend.write(buffer, content)
            assert backend.read(buffer) == content
            with pytest.raises(ValueError, match="do not fit"):
                backend.write(buffer, content + b"x")

    def test_missing_memory_is_our_fault(self, backend: DeviceBackend) -> None:
        """An executor without memory for a slot, or with too little, is refused loudly."""
        plan = plan_for(backend.kind, COPY, COPY_FORWARD)
        ready = prepare(backend, plan, [normal(64)])
        module = compiled(backend, plan)
        with pytest.raises(ValueError, match="input x"):
            backend.executor(ready.program, module, {})
        small = {slot: backend.alloc(4) for slot in ready.buffers}
        with pytest.raises(ValueError, match="too small"):
            backend.executor(ready.program, module, small)

    def test_limits_hold_the_device_bounds(self, backend: DeviceBackend) -> None:
        """Binding uses the device's own bounds."""
        limits = backend.limits()
        assert limits.max_threads_per_block == backend.facts().max_threads_per_block
        assert math.prod(limits.max_grid) >= 2**31
        assert limits.max_memory_bytes > 2**20


@pytest.mark.usefixtures("needs_opencl")
def test_closing_twice_and_unopened_is_safe() -> None:
    """Clean-up code may run more than once, and after a failed start."""
    make_backend("cuda").close()
    backend = make_backend("opencl")
    backend.close()
    with backend:
        backend.alloc(4)
    backend.close()
    with pytest.raises(ValueError, match="unknown device kind"):
        make_backend("hip")


@pytest.mark.usefixtures("needs_opencl")
def test_exchange_file_is_used_in_place(tmp_path: Path) -> None:
    """OpenCL reads inputs from, and writes outputs to, a file that another process maps: no copy."""
    backend = make_backend("opencl")
    path = tmp_path / "arena"
    x = normal(100)
    path.write_bytes(x.tobytes().ljust(512, b"\0") + bytes(512))
    with backend:
        plan = plan_for("opencl", COPY, COPY_FORWARD)
        ready = prepare(backend, plan, [x])
        handles = [{"kind": "file", "path": str(path), "offset": at, "nbytes": 400} for at in (0, 512)]
        slots = [ready.program.inputs[0] or 0, ready.program.output_slots[0]]
        buffers = {slot: backend.from_exchange(handle) for slot, handle in zip(slots, handles, strict=True)}
        executor = backend.executor(ready.program, compiled(backend, plan), buffers)
        executor.run()
        backend.synchronise()
        assert np.array_equal(np.frombuffer(path.read_bytes()[512:912], np.float32), x)
        with pytest.raises(ValueError, match="outside"):
            backend.from_exchange({**handles[0], "offset": 1000})
        del executor, buffers, ready


@pytest.mark.usefixtures("needs_opencl")
def test_wrapped_memory_is_used_in_place() -> None:
    """Memory of this process is read and written where it lies."""
    with make_backend("opencl") as backend:
        array = np.arange(64, dtype=np.float32)
        buffer = backend.wrap(array.ctypes.data, array.nbytes, array)
        assert backend.read(buffer) == array.tobytes()
        backend.write(buffer, np.ones(3, np.float32).tobytes())
        assert array[:4].tolist() == [1, 1, 1, 3]
