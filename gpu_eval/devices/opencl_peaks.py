"""Measured peaks of an OpenCL CPU device: no table knows every host, so two small kernels ask this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gpu_eval.devices.opencl import OpenCLBackend

# PoCL's own functions on float16 vectors abort on CPUs whose calling convention its library was not built
# for, so the chains use float8.
_SOURCE = """
kernel void copy(global const float8 *x, global float8 *y) { size_t i = get_global_id(0); y[i] = x[i]; }
kernel void fma_chain(global float8 *y, int n) {
    float8 a = (float8)(get_global_id(0) * 1e-6f), b = a + 0.1f, c = a + 0.2f, d = a + 0.3f;
    float8 e = a + 0.4f, f = a + 0.5f, g = a + 0.6f, h = a + 0.7f;
    for (int i = 0; i < n; i++) {
        a = a * 0.999f + 0.5f; b = b * 0.999f + 0.5f; c = c * 0.999f + 0.5f; d = d * 0.999f + 0.5f;
        e = e * 0.999f + 0.5f; f = f * 0.999f + 0.5f; g = g * 0.999f + 0.5f; h = h * 0.999f + 0.5f;
    }
    y[get_global_id(0)] = a + b + c + d + e + f + g + h;
}
"""
_VECTORS = 1 << 21  # float8 vectors to copy: 64 MiB each way, beyond a CPU's caches on most hosts
_STEPS = 20_000  # FMA steps an item
_TRIES = (5, 40)  # at least, at most
_BUDGET_US = 300_000.0


def measure_peaks(backend: OpenCLBackend) -> tuple[float, float]:
    """GB/s of a copy, reads and writes counted, and GFLOP/s of independent FMA chains: the best of a few."""
    cl, queue = backend.cl, backend.queue
    program = cl.Program(backend.context, _SOURCE).build(options=["-cl-mad-enable"], devices=[backend.device])
    first, second = backend.alloc(32 * _VECTORS), backend.alloc(32 * _VECTORS)
    x, y = backend.over(first.pointer, first.nbytes), backend.over(second.pointer, second.nbytes)
    copy, chain = cl.Kernel(program, "copy"), cl.Kernel(program, "fma_chain")
    copy.set_args(x, y)
    chain.set_args(y, np.int32(_STEPS))
    items = 16 * int(backend.device.max_compute_units)

    def best(kernel: object, size: int, block: int) -> float:
        def call() -> None:
            cl.enqueue_nd_range_kernel(queue, kernel, (size,), (block,))

        backend.time(call)  # the first one also makes the pages and finishes the compilation
        times = [backend.time(call).wall_us for _ in range(_TRIES[0])]
        while len(times) < _TRIES[1] and sum(times) < _BUDGET_US:
            times.append(backend.time(call).wall_us)
        return min(times)

    bandwidth = 2 * 32 * _VECTORS / best(copy, _VECTORS, 256) / 1e3
    rate = items * 8 * 8 * 2 * _STEPS / best(chain, items, 4) / 1e3
    return bandwidth, rate
