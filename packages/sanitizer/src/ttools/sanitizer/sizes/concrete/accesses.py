"""Accesses at one size: which lanes leave their memory, and what is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttools.interpreter.dialects.traits import ATOMIC
from ttools.interpreter.ir import (
    IntegerType,
    Operation,
    Value,
    element_type,
    shape_of,
)
from ttools.interpreter.ir.expr import array_functions, evaluate
from ttools.sanitizer.sizes.attributes import access_kind, is_modelled
from ttools.sanitizer.sizes.concrete.lanes import (
    Lanes,
    hashed,
    integers,
    mixed,
    spread,
    wrapped,
)
from ttools.sanitizer.sizes.concrete.races import Races
from ttools.sanitizer.sizes.concrete.state import Bools
from ttools.sanitizer.sizes.host.paths import NotModelledError
from ttools.sanitizer.sizes.host.storage import INDEX, is_constant


class Accesses(Races):
    """Computes accesses and what they load."""

    def _access(self, op: Operation) -> None:
        if not is_modelled(op):
            raise NotModelledError(f"`{op.name}` of the kernel")
        pointer = self.get(op.address)
        shape = (self.count, *shape_of(op.address.type))
        active = spread(self._active, shape)
        if op.mask is not None:
            mask = self.get(op.mask)
            if mask.unknown is not None:
                unknown = spread(mask.unknown, shape)
                if (active & unknown).any():
                    self._unsure(op)
                active = active & ~unknown
            active = active & spread(mask.data, shape).astype(bool)
        if pointer.unknown is not None:
            unknown = spread(pointer.unknown, shape)
            if (active & unknown).any():
                self._unsure(op)
            active = active & ~unknown
        kind = access_kind(op)
        at = spread(pointer.data, shape)
        inside = active
        if pointer.base is None:
            if active.any():
                self._unsure(op)
        else:
            inside = self._check_bounds(op, kind, pointer, at, active)
            self._record(op, kind, pointer.base, at, inside)
        for result in op.results:
            self._values[result] = self._loaded(op, result, pointer, at, inside, active)

    def _check_bounds(
        self, op: Operation, kind: str, pointer: Lanes, at: Any, active: Bools
    ) -> Bools:
        """Notes accesses that leave their memory; the lanes of the others."""
        assert pointer.base is not None
        bounds = self._bounds_of(pointer.base)
        wrong = np.zeros_like(active)
        first = {}
        for culprit, marked in sorted(pointer.wraps, key=lambda w: self._order[w[0]]):
            lanes_wrong = active & spread(marked, active.shape) & ~wrong
            if lanes_wrong.any():
                first[culprit] = lanes_wrong
                wrong |= lanes_wrong
        element = at + bounds.offset
        for culprit, marked in first.items():
            self._event("int_overflow", culprit, marked, element, pointer.base)
        outside = active & ((element < 0) | (element >= bounds.elements))
        if (outside & ~wrong).any():
            self._event(f"oob_{kind}", op, outside & ~wrong, element, pointer.base)
        if not bounds.is_whole:
            left = active & ~outside & ~wrong & ~_in_view(at, bounds.dims)
            if left.any():
                self._event("view_oob", op, left, element, pointer.base)
        inside: Bools = active & ~outside
        return inside

    def _loaded(
        self, op: Operation, result: Value, pointer: Lanes, at: Any, inside: Bools, active: Bools
    ) -> Lanes:
        kind = element_type(result.type)
        shape = (self.count, *shape_of(result.type))
        memory = None if pointer.base is None else self._bounds_of(pointer.base)
        settled = memory is not None and memory.memory.number not in self._written
        given = op.operand("other")
        other = None if given is None else self.get(given)
        if not isinstance(kind, IntegerType):
            data = np.zeros(shape, np.uint64)
            if memory is not None and settled and memory.memory.value is not None:
                data[:] = hashed(float(memory.memory.value))
            else:
                number = -1 if memory is None else memory.memory.number
                data = mixed("element", number, spread(at, shape).astype(np.uint64))
            rest = hashed("other") if other is None else other.data
            return Lanes(np.where(inside, data, spread(np.asarray(rest), shape)))
        content = memory.memory.content if memory is not None and settled else None
        if op.has(ATOMIC) or memory is None or content is None:
            missing = np.ones(shape, bool)
            data = np.zeros(shape, np.int64)
        else:
            values = {**self._sizes, INDEX: spread(at, shape) + memory.offset}
            found = evaluate(content, values, array_functions())
            data = np.broadcast_to(np.asarray(found, np.int64), shape)
            missing = ~inside
            half = 1 << (kind.width - 1)
            if kind.width > 1 and is_constant(content):  # torch refuses such a number
                missing = missing | (data < -half) | (data >= half)
            elif kind.width > 1:
                data = wrapped(data, kind.width)
        if op.mask is not None and other is not None:
            use = ~active
            data = np.where(use, spread(other.data, shape), data)
            unknown = other.unknown
            rest = np.zeros(shape, bool) if unknown is None else spread(unknown, shape)
            missing = np.where(use, rest, missing)
        if kind.width == 1:
            return Lanes(data.astype(bool), unknown=missing)
        return integers(np.where(missing, 0, data), missing if missing.any() else None)


def _in_view(at: Any, dims: Sequence[tuple[int, int]]) -> Any:
    """Whether elements, counted from the view's first, belong to it."""
    left = at
    inside = left >= 0
    for stride, extent in dims:
        if extent == 0:
            return np.zeros(np.shape(at), bool)
        left = left - np.minimum(left // stride, extent - 1) * stride
    return inside & (left == 0)
