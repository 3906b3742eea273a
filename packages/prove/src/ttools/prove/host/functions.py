"""Functions with a gradient and custom operators: C code between the user's Python and more of it.

C code would take fake tensors for tensors, so it is left out: what it calls is called at once.
Backward passes are not made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from ttools.core.patches import Patches
from ttools.prove.host.factories import has_fake

_Apply = Callable[..., Any]


class _Context:
    """What `forward` keeps for a backward pass."""

    def __init__(self, count: int) -> None:
        self.needs_input_grad = (False,) * count

    def save_for_backward(self, *_: Any) -> None:
        """Keeps nothing."""

    save_for_forward = mark_dirty = mark_non_differentiable = save_for_backward
    set_materialize_grads = save_for_backward


def follow_functions(patches: Patches) -> None:
    """Has both called without C code where they are given fake tensors."""
    patches.wrap(torch.autograd.Function, "apply", _applied)
    patches.wrap(CustomOpDef, "__call__", _called)


def _applied(original: Any) -> Any:
    base = torch.autograd.Function.setup_context

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not has_fake((*args, *kwargs.values())):
            return original.__func__(cls, *args, **kwargs)
        context = _Context(len(args))
        if cls.setup_context is base:
            return cls.forward(context, *args, **kwargs)
        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        found = cls.forward(*bound.args, **bound.kwargs)
        cls.setup_context(context, bound.args, found)
        return found

    return classmethod(apply)


def _called(original: _Apply) -> _Apply:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_ours = has_fake((*args, *kwargs.values()))
        return self._init_fn(*args, **kwargs) if is_ours else original(self, *args, **kwargs)

    return call
