import ctypes as _ctypes
import os as _os

_os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
import pyopencl as _cl  # noqa: E402


class _Kernels:
    """The kernels on the first OpenCL CPU device: torch's own memory is used in place."""

    def __init__(self, device):
        if device.type != "cpu":
            raise RuntimeError("These kernels are OpenCL for a CPU; move the inputs to the CPU.")
        cpus = [
            cpu
            for platform in _cl.get_platforms()
            for cpu in platform.get_devices()
            if cpu.type & _cl.device_type.CPU
        ]
        if not cpus:
            raise RuntimeError("No OpenCL CPU device; `pip install pocl-binary-distribution` brings one.")
        self.context = _cl.Context([cpus[0]])
        self.queue = _cl.CommandQueue(self.context, cpus[0])
        program = _cl.Program(self.context, _KERNELS)
        self.program = program.build(options=["-cl-std=CL1.2", "-cl-kernel-arg-info"], devices=[cpus[0]])
        self.kernels = {}

    def launch(self, name, *, grid, block, args=(), shared=0):
        if name not in self.kernels:
            self.kernels[name] = _cl.Kernel(self.program, name)
        kernel = self.kernels[name]
        held = [self.argument(value) for value in args]
        for position, value in enumerate(held):
            kernel.set_arg(position, value)
        grid, block = _three(grid), _three(block)
        dims = 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
        size = tuple(blocks * threads for blocks, threads in zip(grid, block))[:dims]
        _cl.enqueue_nd_range_kernel(self.queue, kernel, size, block[:dims])
        self.queue.finish()

    def argument(self, value):
        if not isinstance(value, _Tensor):
            return value
        tensor = value.tensor
        if not tensor.is_contiguous():
            raise RuntimeError("launch takes contiguous tensors")
        nbytes = max(tensor.numel() * tensor.element_size(), 1)
        host = (_ctypes.c_char * nbytes).from_address(tensor.data_ptr())
        flags = _cl.mem_flags.READ_WRITE | _cl.mem_flags.USE_HOST_PTR
        return _cl.Buffer(self.context, flags, hostbuf=host)
