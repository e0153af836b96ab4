@_functools.cache
def _plan_on(device):
    """(forward, prepare) over the kernels, compiled for a device on first use."""
    return _plan(**_Vocabulary(device, _Kernels(device).launch).words())


class ModelNew(Model):  # noqa: F821 - the PyTorch operator above
    """The operator with `forward` run by the kernels. Same arguments, same parameters; no gradients.

    The kernels were verified for the shapes of `get_inputs()`; other shapes are not checked.
    """

    @_torch.no_grad()
    def forward(self, *inputs):
        tensors = [value.contiguous() if isinstance(value, _torch.Tensor) else value for value in inputs]
        device = next(value.device for value in tensors if isinstance(value, _torch.Tensor))
        forward, prepare = _plan_on(device)
        return _unwrap(forward(*(_wrap(value) for value in tensors), self._prepared(prepare)))

    def _prepared(self, prepare):
        """What the plan's `params` are; made again when the weights have changed."""
        weights = _weights_of(self)
        state = {name: (value.data_ptr(), value._version) for name, value in weights.items()}
        if self.__dict__.get("_prepared_for") != state:
            params = {name: _Tensor(value.contiguous()) for name, value in weights.items()}
            self.__dict__["_prepared_params"] = prepare(params) if prepare else params
            self.__dict__["_prepared_for"] = state
        return self.__dict__["_prepared_params"]
