import re as _re
import struct as _struct
import subprocess as _subprocess

import pycuda.driver as _driver
from pycuda.compiler import compile as _nvcc

_SCALARS = {_numpy.int32: "i", _numpy.int64: "q", _numpy.float32: "f", _numpy.float64: "d"}
_DEFAULT_SHARED = 48 * 1024  # bytes of dynamic shared memory; beyond this a function must be told


class _Kernels:
    """The kernels, compiled by nvcc and loaded into the CUDA context that torch uses."""

    def __init__(self, device):
        if device.type != "cuda":
            raise RuntimeError("These kernels are CUDA; move the inputs and the model to the GPU.")
        _torch.cuda.init()
        _torch.cuda.synchronize(device)
        _driver.init()
        context = _driver.Device(device.index or 0).retain_primary_context()
        context.push()
        try:
            major, minor = _torch.cuda.get_device_capability(device)
            arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
            cubin = _nvcc(_KERNELS + _instances(), options=["-std=c++17"], arch=arch, no_extern_c=True)
            self.module = _driver.module_from_buffer(cubin)
            self.functions = {name: self.module.get_function(_symbol(name, cubin)) for name in _KERNEL_NAMES}
        finally:
            context.pop()

    def launch(self, name, *, grid, block, args=(), shared=0):
        function = self.functions[name]
        if shared > _DEFAULT_SHARED:
            function.set_attribute(_driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        form, values = "", []
        for value in args:
            if isinstance(value, _Tensor):
                if not value.tensor.is_contiguous():
                    raise RuntimeError("launch takes contiguous tensors")
                form, values = form + "P", [*values, value.tensor.data_ptr()]
            else:
                form, values = form + _SCALARS[type(value)], [*values, value.item()]
        packed = _struct.pack(form, *values)
        function._launch_kernel(_three(grid), _three(block), packed, shared, _stream())


def _stream():
    """torch's current stream for PyCUDA; None means the default one."""
    handle = _torch.cuda.current_stream().cuda_stream
    return _driver.ExternalStream(handle) if handle else None


def _instances():
    """References that make nvcc emit the template instances which the plan launches."""
    lines = [f"static auto instance_{i} = &{name};" for i, name in enumerate(_KERNEL_NAMES) if "<" in name]
    return "\n#pragma nv_diag_suppress 177\n" + "\n".join(lines) + "\n"


def _symbol(name, cubin):
    """The linker's name of a kernel, read off the compiled code."""
    plain = name.split("<")[0].strip().split("::")[-1]
    symbols = {found.decode() for found in _re.findall(rb"\.text\.([A-Za-z_][\w$]*)\x00", cubin)}
    mangled = _re.compile(rf"_Z\w*?{len(plain)}{plain}(?![a-z0-9])|{plain}$")
    found = sorted(symbol for symbol in symbols if symbol == plain or mangled.match(symbol))
    if len(found) > 1:
        readable = _subprocess.run(["c++filt", *found], capture_output=True, text=True).stdout.splitlines()
        wanted = name.replace(" ", "")
        found = [
            symbol for symbol, text in zip(found, readable) if f"{wanted}(" in text.replace(" ", "") + "("
        ]
    if len(found) != 1:
        raise RuntimeError(f"{name} is not one kernel of the compiled code: {sorted(symbols)}")
    return found[0]
