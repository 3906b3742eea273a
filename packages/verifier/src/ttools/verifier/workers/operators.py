"""Sees which of torch's operators a program runs, and on how many elements.

Allocation, views and copies are a wrapper's business. What computes is noted: operators on floats
always, others for whoever knows that the reference needs them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: Operators that allocate, move elements or look at them, by their names without overloads.
MOVING = frozenset(
    [
        "empty",
        "empty_strided",
        "empty_like",
        "new_empty",
        "new_empty_strided",
        "empty_permuted",
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones",
        "ones_like",
        "new_ones",
        "full",
        "full_like",
        "new_full",
        "fill",
        "fill_",
        "zero_",
        "zero",
        "scalar_tensor",
        "arange",
        "linspace",
        "eye",
        "resize_",
        "set_",
        "detach",
        "detach_",
        "alias",
        "view",
        "_unsafe_view",
        "reshape",
        "_reshape_alias",
        "as_strided",
        "as_strided_",
        "expand",
        "expand_as",
        "permute",
        "transpose",
        "transpose_",
        "t",
        "t_",
        "squeeze",
        "squeeze_",
        "unsqueeze",
        "unsqueeze_",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "unbind",
        "unfold",
        "diagonal",
        "movedim",
        "narrow",
        "view_as_real",
        "view_as_complex",
        "view_dtype",
        "copy_",
        "copy",
        "_to_copy",
        "to",
        "clone",
        "contiguous",
        "cat",
        "stack",
        "constant_pad_nd",
        "pad",
        "repeat",
        "lift",
        "lift_fresh",
        "lift_fresh_copy",
        "item",
        "_local_scalar_dense",
        "is_pinned",
        "pin_memory",
        "record_stream",
        "equal",
        "is_same_size",
        "flip",
        "roll",
        "tril_indices",
        "triu_indices",
        "chunk",
        "hstack",
        "vstack",
        "_has_same_storage_numel",
        "slice_scatter",
        "select_scatter",
        "slice_backward",
        "select_backward",
        "resolve_conj",
        "resolve_neg",
        "isnan",
        "is_nonzero",
    ]
)
#: They draw numbers or fill memory with those of a constant.
_DRAWING = frozenset(
    ["rand", "randn", "randint", "rand_like", "randn_like", "uniform_", "normal_", "random_"]
)


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes operators that compute, with the largest number of elements that each has met."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; torch would import its compiler, for seconds, to no purpose."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        #: By name: the most elements of a float tensor, and of any tensor.
        self.seen: dict[str, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if name not in MOVING and name not in _DRAWING:
            self._note(name, (args, kwargs or {}), result)
        return result

    def _note(self, name: str, arguments: Any, result: Any) -> None:
        """Notes an operator; one that answers a question about floats computes no floats."""
        made = _tensors(result)
        floats, every = self.seen.get(name, (0, 0))
        count = max((each.numel() for each in (*_tensors(arguments), *made)), default=0)
        every = max(every, count)
        if any(each.is_floating_point() or each.is_complex() for each in made):
            floats = max(floats, count)
        self.seen[name] = (floats, every)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [found for each in value for found in _tensors(each)]
    return []
