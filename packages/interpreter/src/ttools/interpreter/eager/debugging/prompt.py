"""Reads single elements of tensors by a subscript at a debugger prompt in a kernel.

Triton's language does not support `v[0]`, but it is convenient at a prompt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ttools.core.errors import UsageError
from ttools.interpreter.eager.debugging import frames
from ttools.interpreter.eager.elements import Handle


def looking_at_elements(subscript: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a subscript method: at a prompt, `v[0]` is an element and `v[1:3]` an array."""

    @functools.wraps(subscript)
    def method(self: Any, index: Any) -> Any:
        try:
            return subscript(self, index)
        except Exception:
            if not frames.is_at_prompt():
                raise
            return _elements_at(self, index)

    return method


def _elements_at(tensor: Any, index: Any) -> Any:
    handle: Handle = tensor.handle
    if not isinstance(index, (int, slice, tuple, type(...))):
        raise UsageError("to select elements, index with integers and slices, or use .numpy()")
    chosen = handle.data[index]
    if chosen.ndim == 0:
        element = Handle(np.asarray(chosen), handle.element, handle.origin)
        return type(tensor)(element, tensor.type.scalar)
    return tensor.numpy()[index]
