"""Views agree with numpy's on random shapes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_eval.plans.program import SlotView
from gpu_eval.plans.views import ViewRefused, coalesced, reshape, slice_dim, transpose, whole

_shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def _array(view: SlotView, memory: np.ndarray) -> np.ndarray:
    """The elements that a view names."""
    strides = [step * memory.itemsize for step in view.strides]
    return np.lib.stride_tricks.as_strided(memory[view.offset :], view.shape, strides)


@given(_shapes, st.data())
@settings(max_examples=200, deadline=None)
def test_chains_of_views_agree_with_numpy(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Any chain of transposes, slices and reshapes names the elements that numpy's does."""
    memory = np.arange(int(np.prod(shape)) + 1)
    view, array = whole(0, shape, "int64"), memory[:-1].reshape(shape)
    for _ in range(data.draw(st.integers(1, 5))):
        kind = data.draw(st.sampled_from(["transpose", "slice", "reshape"]))
        ndim = len(view.shape)
        if kind == "transpose":
            first, second = (data.draw(st.integers(-ndim, ndim - 1)) for _ in range(2))
            view, array = transpose(view, first, second), np.swapaxes(array, first, second)
        elif kind == "slice":
            dim = data.draw(st.integers(0, ndim - 1))
            start = data.draw(st.integers(0, view.shape[dim] - 1))
            stop = data.draw(st.integers(start + 1, view.shape[dim]))
            view = slice_dim(view, dim, start, stop)
            array = array[(slice(None),) * dim + (slice(start, stop),)]
        else:
            target = data.draw(st.sampled_from([(-1,), (1, -1), (view.shape[0], -1), (-1, view.shape[-1])]))
            try:
                view = reshape(view, target)
            except ViewRefused:
                shares = array.reshape(target)
                assert not np.shares_memory(shares, memory) or not _is_view(array, target)
                continue
            array = array.reshape(target)
        assert view.shape == array.shape
        assert np.array_equal(_array(view, memory), array)
        assert view.contiguous == array.flags.c_contiguous
        sizes, strides = coalesced(view)
        flat = SlotView(0, view.offset, sizes, strides, "int64")
        assert np.array_equal(_array(flat, memory).ravel(), array.ravel())


def _is_view(array: np.ndarray, target: tuple[int, ...]) -> bool:
    """Whether numpy can reshape without copying."""
    clone = array.view()
    try:
        clone.shape = array.reshape(target).shape
    except AttributeError:
        return False
    return True
