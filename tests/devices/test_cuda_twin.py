"""The CUDA backend's own logic against a recorded driver, where there is no GPU to run it on."""

from __future__ import annotations

import struct
import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest

from gpu_eval.devices import DeviceLost, LaunchError, Module, OutOfDeviceMemory
from gpu_eval.devices.cuda import CudaBackend
from gpu_eval.devices.cuda_headers import find_nvcc
from tests.devices import fake_driver
from tests.devices.helpers import Prepared, plan_for, prepare

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc on this machine")

KERNEL = "KERNEL void k(float* x, int n, double d, float f, long long m) {}"


@pytest.fixture(name="driver")
def _driver(monkeypatch: pytest.MonkeyPatch) -> fake_driver.Driver:
    driver = fake_driver.Driver()
    package = types.ModuleType("pycuda")
    package.driver = driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)  # type: ignore[arg-type]
    return driver


@pytest.fixture(name="backend")
def _backend(driver: fake_driver.Driver) -> Iterator[CudaBackend]:
    backend = CudaBackend()
    backend.open()
    yield backend
    backend.close()


def ready(backend: CudaBackend, body: str, kernels: str = KERNEL) -> Prepared:
    forward = "def forward(x, params):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return prepare(backend, plan_for("cuda", kernels, forward), [np.zeros((4, 6), np.float32)])


def test_context_is_pushed_and_popped_once(driver: fake_driver.Driver) -> None:
    """A context that is still pushed at exit aborts the process."""
    backend = CudaBackend()
    backend.open()
    backend.close()
    backend.close()
    assert driver.stack == ["init", "push", "pop"]


def test_facts_are_theoretical_peaks(backend: CudaBackend) -> None:
    """Bandwidth is twice the memory clock times the bus; the fp32 rate two FLOPs a core and clock."""
    facts = backend.facts()
    assert facts.architecture == "sm_90"
    assert backend.arch() == "sm_90a"
    assert facts.peak_bandwidth_gbs == pytest.approx(4916.7, abs=0.1)
    assert facts.peak_fp32_gflops == pytest.approx(66908.2, abs=0.1)
    assert not facts.peaks_measured


def test_arguments_are_packed_as_cuda_lays_them_out(backend: CudaBackend, driver: fake_driver.Driver) -> None:
    """Every value sits at a multiple of its size, in one buffer made before the first call."""
    launch = 'launch("k", grid=(7, 2), block=(32, 4), args=[x, int32(3), float64(0.5), float32(2), int64(9)])'
    prepared = ready(backend, f"{launch}\nreturn empty(())")
    for _ in range(2):
        prepared.executor.run()
    work = [entry for entry in driver.log if entry[0] == "launch"]
    assert len(work) == 2
    assert work[0] == work[1]
    _, _, grid, block, packed, shared = work[0]
    assert (grid, block, shared) == ((7, 2, 1), (32, 4, 1), 0)
    pointer = prepared.buffers[prepared.program.inputs[0] or 0].pointer
    assert packed == struct.pack("<Qi4xdf4xq", pointer, 3, 0.5, 2.0, 9)


def test_steps_run_in_order(backend: CudaBackend, driver: fake_driver.Driver) -> None:
    """Fills, launches and copies go to the one stream as the plan has them."""
    kernels = "KERNEL void k(float* x) {}"
    launch = 'launch("k", grid=1, block=1, args=[z])'
    body = f"z = zeros((3,))\n{launch}\nt = contiguous(transpose(x, 0, 1))\nreturn z, x, t"
    prepared = ready(backend, body, kernels)
    driver.log.clear()
    prepared.executor.run()
    assert [entry[:2] for entry in driver.log] == [
        ("fill", 0),
        ("launch", "k"),
        ("launch", "htam_copy_4"),
        ("copy", 96),
    ]
    packed = driver.log[2][4]
    assert len(packed) == 8 + 8 + 8 + 136
    assert struct.unpack_from("<q8q8qi", packed, 16) == (24, 6, 4, *(1,) * 6, 1, 6, *(1,) * 6, 2)


def test_large_dynamic_shared_memory_is_announced(backend: CudaBackend) -> None:
    """Beyond 48 KiB the function must be told before the launch."""
    kernels = "KERNEL void k(float* x) {}"
    prepared = ready(
        backend, 'launch("k", grid=1, block=64, args=[x], shared=100000)\nreturn empty(())', kernels
    )
    executor = prepared.executor
    assert isinstance(executor.module, Module)  # type: ignore[attr-defined]
    function = executor.module.extra["functions"]["k"]  # type: ignore[attr-defined]
    assert function.attributes == {"dynamic": 100000}
    (report,) = executor.kernel_reports()
    assert report.shared_bytes == 100000
    assert report.occupancy == 2 * 2 / 64


@pytest.mark.parametrize("args", ["[x]", "[x, x, float64(1), float32(1), int64(1)]", "[]"])
def test_arguments_are_held_against_the_cubin(backend: CudaBackend, args: str) -> None:
    """The compiled kernel says how many bytes each parameter has."""
    with pytest.raises(LaunchError, match="'k'"):
        ready(backend, f'launch("k", grid=1, block=1, args={args})\nreturn x')


def test_driver_errors_become_verdicts(backend: CudaBackend, driver: fake_driver.Driver) -> None:
    """A lost context, exhausted memory and a refused launch are told apart by the driver's words."""
    driver.fail = fake_driver.LogicError("cuCtxSynchronize failed: an illegal memory access was encountered")
    with pytest.raises(DeviceLost):
        backend.synchronise()
    driver.fail = fake_driver.LaunchError("cuCtxSynchronize failed: the launch timed out and was terminated")
    with pytest.raises(DeviceLost):
        backend.time(lambda: None)
    driver.fail = fake_driver.LaunchError("cuLaunchKernel failed: too many resources requested for launch")
    with pytest.raises(LaunchError, match="too many resources"):
        backend.synchronise()
    with pytest.raises(OutOfDeviceMemory):
        backend.alloc(1 << 60)


def test_time_gives_both_clocks(backend: CudaBackend) -> None:
    """The wall clock counts; the events' figure comes in microseconds too."""
    elapsed = backend.time(lambda: None)
    assert elapsed.wall_us > 0
    assert elapsed.device_us == 250.0


def test_guards_are_seen(backend: CudaBackend) -> None:
    """The guard bytes around the runner's own slots work on device memory."""
    prepared = ready(backend, "t = empty((5,))\nreturn slice(t, 0, 0, 2)", "")
    assert prepared.executor.broken_guards() == []
    memory = prepared.executor.memory  # type: ignore[attr-defined]
    (index,) = memory.guarded
    backend.write(backend.wrap(memory.pointers[index] + 20, 1), b"\0")
    assert prepared.executor.broken_guards() == ["empty@7"]
