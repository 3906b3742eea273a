"""Reductions and scans with a combine function, and `tl.map_elementwise`.

A reduction with one of Triton's own combine functions runs as a native reduction, so that sums
equal those of the native engine bit for bit. Users' combine functions run as Python, so that a
debugger can step into them. Such a function is called with two blocks of elements at a time: a
reduction of 8 elements calls it with the 4 elements at even and the 4 elements at odd positions,
and then again with the halves of the result. A function that branches on its arguments is called
for each lane instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from triton import language as tl

from ttools.core.lazy_values import once
from ttools.core.ownership import owner_of_function
from ttools.core.triton_versions import combine_function, semantic_class
from ttools.interpreter.eager.elements import Handle, element
from ttools.interpreter.eager.groups import GroupError
from ttools.interpreter.eager.session import current, meaning
from ttools.interpreter.eager.values import EagerTensor, UndecidedError, lift, lower

Blocks = tuple[EagerTensor, ...]


@once
def eager_semantic_class() -> type:
    """Return Triton's semantic layer for the eager builder."""
    base = semantic_class()

    class EagerSemantic(base):  # type: ignore[misc,valid-type]
        """Triton's semantic layer, with eager reductions and scans."""

        def reduction(self, inputs: Any, axis: Any, region_builder_fn: Any) -> Any:
            """Return a reduction along an axis, or of all elements."""
            if axis is None:
                inputs = tuple(
                    self.reshape(t, [math.prod(map(int, t.type.shape))], can_reorder=True)
                    for t in inputs
                )
                axis = 0
            function = _jit_function(combine_function(region_builder_fn))
            return _reduction(self, inputs, axis, function)

        def associative_scan(
            self, inputs: Any, axis: int, region_builder_fn: Any, reverse: Any
        ) -> Any:
            """Return an inclusive scan along an axis."""
            axis %= len(inputs[0].type.shape)
            function = _jit_function(combine_function(region_builder_fn))
            return _scan(self, inputs, axis, function, bool(reverse))

    return EagerSemantic


def _jit_function(function: Any) -> Any:
    """Return the jit function behind a constant or an eager function."""
    function = getattr(function, "value", function)  # `function` may be a constexpr
    return getattr(function, "jit_function", function)


# ---- reductions and scans by the native engine


def _natively(
    semantic: Any, name: str, inputs: Any, function: Any, attributes: tuple[Any, ...]
) -> Any:
    scalars = [t.type.scalar for t in inputs]

    def write(builder: Any, values: list[Any], *rest: Any) -> Any:
        op = getattr(builder, f"create_{name}")(values, *rest)
        point = builder.get_insertion_point()
        types = [type.to_ir(builder) for type in scalars] * 2
        block = builder.create_block_with_parent(op.get_region(0), types)
        arguments = [tl.tensor(block.arg(i), t) for i, t in enumerate(scalars * 2)]
        session = current()
        with meaning(session, semantic_class()(builder)):
            results = _as_tuple(_call(function, map(lift, arguments)))
            handles = [lower(r).handle for r in results]
        getattr(builder, f"create_{name}_ret")(*handles)
        builder.restore_insertion_point(point)
        return [op.get_result(i) for i in range(len(inputs))]

    key = (id(function), tuple(map(str, scalars)))
    arguments = ([t.handle for t in inputs], *attributes)
    results = semantic.builder.native(f"create_{name}", arguments, write, key)
    axis, *reversed_ = attributes
    semantic.builder.report(f"create_{name}", (arguments[0], axis, function, *reversed_), results)
    return results


# ---- reductions and scans in Python, on blocks


def _call(function: Any, arguments: Any) -> Any:
    return current().language.wrap(function)(*arguments)


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, (tuple, list, tl.tuple)) else (results,)


def elementwise(function: Any, blocks: Sequence[EagerTensor]) -> Blocks:
    """Apply a function of scalars to every lane of blocks, and return the results."""
    try:
        results = _as_tuple(_call(function, blocks))
    except UndecidedError:
        return _lane_by_lane(function, blocks)
    shape = [int(n) for n in blocks[0].shape]
    return tuple(lift(_like(result, shape)) for result in results)


def _like(result: Any, shape: list[int]) -> Any:
    """Return a result, which may be a constant or a scalar, as a block of the given shape."""
    semantic = current().semantic
    value = semantic.to_tensor(lower(result))
    return value if value.type.is_block() or not shape else semantic.splat(value, shape)


def _lane_by_lane(function: Any, blocks: Sequence[EagerTensor]) -> Blocks:
    shape = blocks[0].handle.data.shape
    lanes: list[tuple[Any, ...]] = []
    for index in np.ndindex(*shape):
        scalars = [
            EagerTensor(b.handle.with_data(b.handle.data[index]), b.type.scalar) for b in blocks
        ]
        results = _as_tuple(_call(function, scalars))
        lanes.append(tuple(lift(current().semantic.to_tensor(lower(r))) for r in results))
    made = []
    for column in zip(*lanes, strict=True):
        data = np.array([value.handle.data for value in column]).reshape(shape)
        data = data.astype(column[0].handle.element.dtype)
        handle = Handle(data, column[0].handle.element)
        type = tl.block_type(column[0].type, list(shape)) if shape else column[0].type
        made.append(EagerTensor(handle, type))
    return tuple(made)


def _report_python(semantic: Any, inputs: Any, function: Any, results: Any) -> None:
    """Report a reduction or scan whose order differs from that of the native engine."""
    operands = [t.handle for t in inputs]
    semantic.builder.report("create_python_reduction", (operands, function), results)


def _take(block: EagerTensor, axis: int, index: Any) -> EagerTensor:
    where: list[Any] = [slice(None)] * block.handle.data.ndim
    where[axis] = index
    taken = block.handle.at(tuple(where))
    shape = list(taken.data.shape)
    return EagerTensor(
        taken, tl.block_type(block.type.scalar, shape) if shape else block.type.scalar
    )


def _refuse_groups() -> None:
    """Refuse to run a function of the user on blocks of several programs.

    Raises:
        GroupError: Programs run in a group.
    """
    if current().group is not None:
        raise GroupError("combine functions of the user run for one program at a time")


def _reduction(semantic: Any, inputs: Any, axis: int, function: Any) -> Any:
    shape = list(inputs[0].type.shape)
    if any(list(t.type.shape) != shape for t in inputs):
        raise ValueError("all inputs of a reduction must have the same shape")
    if owner_of_function(function) == "triton":
        handles = _natively(semantic, "reduce", inputs, function, (axis,))
    else:
        _refuse_groups()
        blocks = tuple(lift(t) for t in inputs)
        while blocks[0].handle.data.shape[axis] > 1:
            left = tuple(_take(b, axis, slice(0, None, 2)) for b in blocks)
            right = tuple(_take(b, axis, slice(1, None, 2)) for b in blocks)
            blocks = elementwise(function, (*left, *right))
        handles = [_take(b, axis, 0).handle for b in blocks]
        _report_python(semantic, inputs, function, handles)
    del shape[axis]
    scalars = [t.type.scalar for t in inputs]
    types = [tl.block_type(s, shape) if shape else s for s in scalars]
    return tuple(tl.tensor(h, type) for h, type in zip(handles, types, strict=True))


def _scan(semantic: Any, inputs: Any, axis: int, function: Any, reverse: bool) -> Any:
    if owner_of_function(function) == "triton":
        handles = _natively(semantic, "scan", inputs, function, (axis, reverse))
        return tuple(tl.tensor(h, t.type) for h, t in zip(handles, inputs, strict=True))
    _refuse_groups()
    flip = slice(None, None, -1) if reverse else slice(None)
    blocks = tuple(_take(lift(t), axis, flip) for t in inputs)
    extent = blocks[0].handle.data.shape[axis]
    distance = 1
    while distance < extent:
        # Lanes without a partner are combined with lane 0, but `alone` keeps their old value.
        partner = np.maximum(np.arange(extent) - distance, 0)
        earlier = tuple(_take(b, axis, partner) for b in blocks)
        combined = elementwise(function, (*earlier, *blocks))
        is_alone = (np.arange(extent) < distance).reshape(
            [-1 if n == axis else 1 for n in range(blocks[0].handle.data.ndim)]
        )
        alone = Handle(np.broadcast_to(is_alone, blocks[0].handle.data.shape), element("i1"))
        blocks = tuple(
            EagerTensor(semantic.builder.create_select(alone, b.handle, c.handle), b.type)
            for b, c in zip(blocks, combined, strict=True)
        )
        distance *= 2
    results = tuple(lower(_take(b, axis, flip)) for b in blocks)
    _report_python(semantic, inputs, function, [t.handle for t in results])
    return results


def map_elementwise(function: Any, *arguments: Any, pack: Any = 1, **_: Any) -> Any:
    """Execute `tl.map_elementwise`."""
    _refuse_groups()
    pack = int(pack)
    semantic = current().semantic
    blocks = [lift(t) for t in semantic.broadcast_tensors(*map(lower, arguments))]
    function = _jit_function(function)
    if pack == 1:
        results = elementwise(function, blocks)
    else:
        parts = [_packed(block, pack) for block in blocks]
        results = elementwise(function, [part for group in parts for part in group])
        results = tuple(
            _unpacked(results[n : n + pack], blocks[0]) for n in range(0, len(results), pack)
        )
    # With `pack`, Triton always returns a tuple.
    return results[0] if pack == 1 and len(results) == 1 else results


def _packed(block: EagerTensor, pack: int) -> list[EagerTensor]:
    data = block.handle.data.reshape(-1, pack)
    type = tl.block_type(block.type.scalar, [data.shape[0]])
    return [EagerTensor(block.handle.with_data(data[:, n]), type) for n in range(pack)]


def _unpacked(parts: Sequence[EagerTensor], like: EagerTensor) -> EagerTensor:
    data = np.stack([part.handle.data for part in parts], axis=-1).reshape(like.handle.data.shape)
    type = tl.block_type(parts[0].type.scalar, list(data.shape))
    return EagerTensor(parts[0].handle.with_data(data), type)
