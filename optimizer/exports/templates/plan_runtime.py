import functools as _functools

import numpy as _numpy
import torch as _torch


class _Tensor:
    """A torch tensor with the facts that a plan reads."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def shape(self):
        return tuple(self.tensor.shape)

    @property
    def ndim(self):
        return self.tensor.dim()

    @property
    def numel(self):
        return self.tensor.numel()

    @property
    def dtype(self):
        return str(self.tensor.dtype).removeprefix("torch.")


def _wrap(value):
    if isinstance(value, _torch.Tensor):
        return _Tensor(value)
    return tuple(_wrap(item) for item in value) if isinstance(value, (tuple, list)) else value


def _unwrap(value):
    if isinstance(value, _Tensor):
        return value.tensor
    return type(value)(_unwrap(item) for item in value) if isinstance(value, (tuple, list)) else value


class _Library:
    """Torch operations by the names that a plan calls them."""

    def __getattr__(self, name):
        function = _functools.reduce(getattr, _LIBRARY[name].split("."), _torch)

        def call(*args, **kwargs):
            if isinstance(kwargs.get("dtype"), str):
                kwargs["dtype"] = getattr(_torch, kwargs["dtype"])
            keywords = {key: _unwrap(value) for key, value in kwargs.items()}
            return _wrap(function(*_unwrap(args), **keywords))

        return call


class _Vocabulary:
    """The words of a plan over torch tensors on one device."""

    def __init__(self, device, launch):
        self.device = device
        self.launch = launch

    def words(self):
        return {
            "empty": self.empty,
            "zeros": self.zeros,
            "empty_like": lambda t: _Tensor(_torch.empty(t.shape, dtype=t.tensor.dtype, device=self.device)),
            "reshape": lambda t, shape: _Tensor(t.tensor.reshape(shape)),
            "transpose": lambda t, i, j: _Tensor(t.tensor.transpose(i, j)),
            "slice": self.slice,
            "contiguous": lambda t: _Tensor(t.tensor.contiguous()),
            "launch": self.launch,
            "cdiv": lambda a, b: -(-a // b),
            "int32": _numpy.int32,
            "int64": _numpy.int64,
            "float32": _numpy.float32,
            "float64": _numpy.float64,
            "lib": _Library(),
        }

    def empty(self, shape, dtype="float32"):
        return _Tensor(_torch.empty(shape, dtype=getattr(_torch, dtype), device=self.device))

    def zeros(self, shape, dtype="float32"):
        return _Tensor(_torch.zeros(shape, dtype=getattr(_torch, dtype), device=self.device))

    def slice(self, t, dim, start, stop):
        start, stop, _ = slice(start, stop).indices(t.shape[dim])
        return _Tensor(t.tensor.narrow(dim, start, max(0, stop - start)))


def _three(sizes):
    sizes = sizes if isinstance(sizes, (tuple, list)) else (sizes,)
    return tuple(int(size) for size in (*sizes, 1, 1))[:3]


def _weights_of(model):
    """Parameters, buffers and plain tensor attributes by dotted name: a plan's ``params``."""
    weights = dict(model.named_parameters())
    weights.update(model.named_buffers())
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, _torch.Tensor):
                weights[f"{prefix}.{name}" if prefix else name] = value
    return {name: value.detach() for name, value in weights.items()}
