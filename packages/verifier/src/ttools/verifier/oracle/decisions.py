"""Keeps decisions about undisturbed values what they are while a function gets disturbed ones.

Rounding, comparing and choosing jump where two values are equal. A kernel that computed one of them
may miss such a place by a rounding error, one that only read them may not. So a decision about
arguments (views and conversions of them, constants) is made with their undisturbed values, and a
decision about what was computed with the disturbed ones.
"""

from __future__ import annotations

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
#: Functions whose results jump, though they are floats.
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


class Decisions(TorchFunctionMode):
    """Follows values that nothing was computed from while it is active.

    Attributes:
        are_of_computed: whether there were decisions about values that were computed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_of_computed = False
        #: By identity: the tensor, and its undisturbed values.
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def follow(self, tensor: torch.Tensor, undisturbed: torch.Tensor) -> None:
        """Takes a tensor for a disturbed one."""
        self._known[id(tensor)] = tensor, undisturbed

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if _changes(name) or "out" in kwargs:
            self._known.clear()
            changed = func(*args, **kwargs)
            self.are_of_computed |= _is_decision(name, changed)
            return changed
        result = func(*args, **kwargs)
        if name in _CREATING and isinstance(result, torch.Tensor):
            self.follow(result, result)
            return result
        try:
            undisturbed = self._undisturbed((args, kwargs))
        except LookupError:
            self.are_of_computed |= _is_decision(name, result)
            return result
        if name in MOVING or _is_decision(name, result):
            decided = func(*undisturbed[0], **undisturbed[1])
            result = decided if name in JUMPING else _with_integers(result, decided)
            self._follow(result, decided, name in MOVING)
        return result

    def _undisturbed(self, value: Any) -> Any:
        """Arguments as they were; LookupError if one of them was computed."""
        if isinstance(value, torch.Tensor):
            return self._known[id(value)][1]
        if isinstance(value, dict):
            return {key: self._undisturbed(item) for key, item in value.items()}
        if type(value) in (tuple, list):
            return type(value)(map(self._undisturbed, value))
        return value

    def _follow(self, result: Any, undisturbed: Any, is_moved: bool) -> None:
        """Follows the parts of a result; what floats are computed from others is not."""
        if isinstance(result, torch.Tensor):
            if is_moved or result is undisturbed:
                self.follow(result, undisturbed)
        elif isinstance(result, (tuple, list)):
            for one, other in zip(result, undisturbed, strict=True):
                self._follow(one, other, is_moved)


def _changes(name: str) -> bool:
    """Whether a function changes a tensor, of which others may be views."""
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _is_decision(name: str, result: Any) -> bool:
    return name.rstrip("_") in JUMPING or _has_integers(result)


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


def _has_integers(result: Any) -> bool:
    parts = result if isinstance(result, (tuple, list)) else [result]
    return any(map(_is_integer, parts))


def _with_integers(result: Any, decided: Any) -> Any:
    """A result with the integers of another."""
    if _is_integer(result):
        return decided
    if isinstance(result, (tuple, list)) and any(map(_is_integer, result)):
        parts = [two if _is_integer(two) else one for one, two in zip(result, decided, strict=True)]
        return type(result)(parts)
    return result
