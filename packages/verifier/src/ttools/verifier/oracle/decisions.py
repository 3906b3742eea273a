"""Uses original values for decisions about arguments while a function gets perturbed values.

Rounding, comparison and selection are discontinuous where two values are equal. If a kernel
computed one of the two values, a rounding error may change the decision. If it only read both
values, it must decide exactly. Therefore decisions about arguments (including views and conversions
of arguments, and constants) use the original values, and decisions about computed values use the
perturbed ones. For example, in `torch.where(x > 0, a, b)` the comparison uses the original `x`, but
in `torch.where(x * y > 0, a, b)` it uses the perturbed product.

If several elements are equal, `max`, `min`, `argmax` and `argmin` along an axis return the first of
them, and a NaN counts as the largest value (for `min` and `argmin`, as the smallest). A kernel must
follow this rule. For `topk`, `kthvalue`, and `sort` and `argsort` without `stable=True`, torch does
not define which of several equal elements comes first. These functions get the elements in a
different order each time, so that indices which depend on the order have a spread.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

#: Functions that move elements, or whose results are exact.
MOVING = frozenset(
    [
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "permute",
        "transpose",
        "t",
        "movedim",
        "swapaxes",
        "squeeze",
        "unsqueeze",
        "expand",
        "expand_as",
        "broadcast_to",
        "__getitem__",
        "narrow",
        "select",
        "chunk",
        "split",
        "unbind",
        "tensor_split",
        "flip",
        "roll",
        "to",
        "float",
        "double",
        "contiguous",
        "clone",
        "detach",
        "cat",
        "stack",
        "repeat",
        "repeat_interleave",
        "diagonal",
        "tril",
        "triu",
        "gather",
        "index_select",
        "take_along_dim",
        "masked_fill",
        "where",
        "abs",
        "neg",
        "__neg__",
        "relu",
        "clamp",
        "clamp_min",
        "clamp_max",
        "max",
        "min",
        "amax",
        "amin",
        "maximum",
        "minimum",
        "sort",
        "topk",
        "__get__",
    ]
)
#: Functions that make constants.
_CREATING = frozenset(
    [
        "tensor",
        "arange",
        "zeros",
        "ones",
        "full",
        "linspace",
        "zeros_like",
        "ones_like",
        "full_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_tensor",
        "as_tensor",
        "eye",
        "scalar_tensor",
    ]
)
#: Functions whose results are floats but discontinuous.
JUMPING = frozenset(
    [
        "round",
        "floor",
        "ceil",
        "trunc",
        "fix",
        "sign",
        "sgn",
        "heaviside",
        "frac",
        "hardshrink",
        "threshold",
    ]
)

#: Functions that may return equal elements in any order, with the position of their parameter
#: `dim`.
_UNORDERED = {"topk": 2, "sort": 1, "argsort": 1, "kthvalue": 2}


class Decisions(TorchFunctionMode):
    """Tracks, while it is active, the tensors that were not computed, and their original values.

    Args:
        generator: Chooses the order of equal elements where torch does not define it.

    Attributes:
        are_of_computed: If True, there were decisions about computed values.
        are_shuffled: If True, elements were shuffled because torch does not define their order.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.are_of_computed = False
        self.are_shuffled = False
        self._generator = generator
        #: Maps the identity of each tensor to the tensor and its original values.
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def follow(self, tensor: torch.Tensor, unperturbed: torch.Tensor) -> None:
        """Record a perturbed tensor with its original values."""
        self._known[id(tensor)] = tensor, unperturbed

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if _changes(name) or "out" in kwargs:
            self._known.clear()
            changed = func(*args, **kwargs)
            self.are_of_computed |= _is_decision(name, changed)
            return changed
        if name in _UNORDERED and not kwargs.get("stable"):
            func = partial(self._shuffled, func, _UNORDERED[name])
        result = func(*args, **kwargs)
        if name in _CREATING and isinstance(result, torch.Tensor):
            self.follow(result, result)
            return result
        try:
            unperturbed = self._unperturbed((args, kwargs))
        except LookupError:
            self.are_of_computed |= _is_decision(name, result)
            return result
        if name in MOVING or _is_decision(name, result):
            decided = func(*unperturbed[0], **unperturbed[1])
            result = decided if name in JUMPING else _with_integers(result, decided)
            self._follow(result, decided, name in MOVING)
        return result

    def _shuffled(self, func: Any, position: int, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function that selects or sorts elements, with the elements in a shuffled order.

        Args:
            func: Function of torch that is called.
            position: Position of the parameter `dim` in a call.
            tensor: Tensor with the elements.
        """
        dim = kwargs.get("dim", args[position - 1] if len(args) >= position else -1)
        if not isinstance(tensor, torch.Tensor) or not tensor.dim() or isinstance(dim, str):
            return func(tensor, *args, **kwargs)
        self.are_shuffled = True
        order = torch.randperm(tensor.shape[dim], generator=self._generator, device="cpu")
        order = order.to(tensor.device)
        result = func(tensor.index_select(dim, order), *args, **kwargs)
        if isinstance(result, torch.Tensor):
            return order[result]
        values, indices = result
        return type(result)((values, order[indices]))

    def _unperturbed(self, value: Any) -> Any:
        """Return arguments with their original values.

        Raises:
            LookupError: One of them was computed.
        """
        if isinstance(value, torch.Tensor):
            return self._known[id(value)][1]
        if isinstance(value, dict):
            return {key: self._unperturbed(item) for key, item in value.items()}
        if type(value) in (tuple, list):
            return type(value)(map(self._unperturbed, value))
        return value

    def _follow(self, result: Any, unperturbed: Any, is_moved: bool) -> None:
        """Record the parts of a result with original values, except floats that were computed."""
        if isinstance(result, torch.Tensor):
            if is_moved or result is unperturbed:
                self.follow(result, unperturbed)
        elif isinstance(result, (tuple, list)):
            for one, other in zip(result, unperturbed, strict=True):
                self._follow(one, other, is_moved)


def _changes(name: str) -> bool:
    """Return whether a function changes a tensor in place, which may also change views of it."""
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _is_decision(name: str, result: Any) -> bool:
    return name.rstrip("_") in JUMPING or _has_integers(result)


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


def _has_integers(result: Any) -> bool:
    parts = result if isinstance(result, (tuple, list)) else [result]
    return any(map(_is_integer, parts))


def _with_integers(result: Any, decided: Any) -> Any:
    """Return a result with its integer tensors replaced by those of a second result."""
    if _is_integer(result):
        return decided
    if isinstance(result, (tuple, list)) and any(map(_is_integer, result)):
        parts = [two if _is_integer(two) else one for one, two in zip(result, decided, strict=True)]
        return type(result)(parts)
    return result
