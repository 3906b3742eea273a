"""The operations that NumPy computes exactly as the native engine does, by builder method.

These are integer arithmetic that wraps around, operations on shapes, which only move elements, and
IEEE arithmetic, whose results are exactly defined. A function may return `NotImplemented` for some
types; the operation then runs natively, like all operations that are not listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ttools.interpreter.eager.elements import Element, Handle, element, split_type

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_BOOL = element("i1")
#: Formats in which NumPy and ml_dtypes round sums, differences and products correctly, and only
#: once.
_ROUNDED_ONCE = frozenset(("f16", "bf16", "f32", "f64"))
_IEEE = frozenset(("f32", "f64"))

Result = Any  # a Handle, a list of them, or NotImplemented


def _unsigned(handle: Handle) -> Any:
    if handle.element is _BOOL:
        return handle.data.astype(np.uint8)
    return handle.data.view(_UNSIGNED[handle.element.size * 8])


def _type(type: Any) -> tuple[Element, tuple[int, ...] | None]:
    return split_type(str(type))


# ---- arithmetic


def _integer(function: Callable[..., Any]) -> Callable[..., Result]:
    def compute(a: Handle, b: Handle) -> Result:
        if a.element is _BOOL:
            return NotImplemented
        return a.with_data(function(a.data, b.data))

    return compute


def _bitwise(function: Callable[..., Any]) -> Callable[..., Result]:
    return lambda a, b: a.with_data(function(a.data, b.data))


def _unsigned_pick(function: Callable[..., Any]) -> Callable[..., Result]:
    def compute(a: Handle, b: Handle) -> Result:
        picked = np.asarray(function(_unsigned(a), _unsigned(b)))
        return a.with_data(picked.astype(a.element.dtype))

    return compute


def _floating(function: Callable[..., Any], formats: frozenset[str]) -> Callable[..., Result]:
    def compute(*operands: Handle) -> Result:
        first = operands[0]
        if first.element.text not in formats:
            return NotImplemented
        result = function(*(operand.data for operand in operands))
        return first.with_data(np.asarray(result, first.element.dtype))

    return compute


def _compare(function: Callable[..., Any], *, unsigned: bool = False) -> Callable[..., Result]:
    def compute(a: Handle, b: Handle) -> Result:
        left, right = (_unsigned(a), _unsigned(b)) if unsigned else (a.data, b.data)
        if a.element is _BOOL and not unsigned:
            # In a signed comparison, the i1 value True is -1.
            left, right = -left.astype(np.int8), -right.astype(np.int8)
        return Handle(np.asarray(function(left, right)), _BOOL)

    return compute


def _select(condition: Handle, a: Handle, b: Handle) -> Result:
    return Handle(np.where(condition.data, a.data, b.data), a.element, a.origin or b.origin)


# ---- conversions


def _int_cast(value: Handle, type: Any, signed: bool) -> Result:
    wanted, _ = _type(type)
    if wanted is _BOOL:
        return Handle(np.asarray((value.data & 1).astype(np.bool_)), wanted)
    source = value.data if signed else _unsigned(value)
    if signed and value.element is _BOOL:
        source = -value.data.astype(np.int8)
    return Handle(np.asarray(source.astype(wanted.dtype)), wanted)


def _int_to_float(*, signed: bool) -> Callable[..., Result]:
    def convert(value: Handle, type: Any) -> Result:
        wanted, _ = _type(type)
        if wanted.text not in _IEEE or value.element is _BOOL:
            return NotImplemented
        source = value.data if signed else _unsigned(value)
        return Handle(np.asarray(source.astype(wanted.dtype)), wanted)

    return convert


#: Conversions between formats for which NumPy rounds once, to nearest even.
_CONVERSIONS = frozenset(
    (a, b) for a, b in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64"))
) | frozenset((("f64", "f32"), ("f32", "f16"), ("f32", "bf16")))


def _float_to_float(value: Handle, type: Any, *rounding: Any) -> Result:
    wanted, _ = _type(type)
    if rounding or (value.element.text, wanted.text) not in _CONVERSIONS:
        return NotImplemented
    return Handle(np.asarray(value.data.astype(wanted.dtype)), wanted)


def _reinterpret(value: Handle, type: Any) -> Result:
    wanted, _ = _type(type)
    if wanted is _BOOL or value.element is _BOOL:
        return Handle(np.asarray(value.data.astype(wanted.dtype)), wanted)
    return Handle(np.ascontiguousarray(value.data).view(wanted.dtype).reshape(value.data.shape),
                  wanted, value.origin)  # fmt: skip


# ---- pointers


def _addptr(pointer: Handle, offset: Handle) -> Result:
    assert pointer.element.pointee is not None
    scale = pointer.element.pointee.size
    return pointer.with_data(pointer.data + offset.data.astype(np.int64) * scale)


# ---- shapes


def _splat(type: Any, value: Handle) -> Result:
    return value.with_data(np.broadcast_to(value.data, _type(type)[1] or ()))


def _reshape(value: Handle, shape: Sequence[int], *_: Any) -> Result:
    return value.with_data(value.data.reshape([int(n) for n in shape]))


def _join(a: Handle, b: Handle) -> Result:
    return a.with_data(np.stack((a.data, b.data), axis=-1))


def _split(value: Handle) -> Result:
    return [value.with_data(value.data[..., 0]), value.with_data(value.data[..., 1])]


def _make_range(type: Any, start: int, end: int) -> Result:
    return Handle(np.arange(start, end, dtype=np.int32), _type(type)[0])


# ---- constants


def constant(text: str, value: Any) -> Handle:
    """Return a scalar of the type that MLIR writes as `text`; integers wrap."""
    kind = element(text)
    if kind.is_integer and kind is not _BOOL:
        bits = kind.size * 8
        value = (int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    return Handle(np.asarray(value, np.float64 if kind.text[0] in "bf" else None).astype(
        kind.dtype), kind)  # fmt: skip


def _filled(type: Any, value: int) -> Handle:
    kind, shape = _type(type)
    return Handle(np.full(shape or (), value, np.int64).astype(kind.dtype), kind)


_CONSTANTS = {
    "get_int1": "i1",
    **{f"get_{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"get_fp{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "get_bf16": "bf16",
}


#: Builder methods that are computed here.
OPERATIONS: dict[str, Callable[..., Result]] = {
    **{name: partial(constant, text) for name, text in _CONSTANTS.items()},
    "get_null_value": lambda type: _filled(type, 0),
    "get_all_ones_value": lambda type: _filled(type, -1),
    "create_add": _integer(np.add),
    "create_sub": _integer(np.subtract),
    "create_mul": _integer(np.multiply),
    "create_and": _bitwise(np.bitwise_and),
    "create_or": _bitwise(np.bitwise_or),
    "create_xor": _bitwise(np.bitwise_xor),
    "create_maxsi": _integer(np.maximum),
    "create_minsi": _integer(np.minimum),
    "create_maxui": _unsigned_pick(np.maximum),
    "create_minui": _unsigned_pick(np.minimum),
    "create_fadd": _floating(np.add, _ROUNDED_ONCE),
    "create_fsub": _floating(np.subtract, _ROUNDED_ONCE),
    "create_fmul": _floating(np.multiply, _ROUNDED_ONCE),
    "create_fneg": _floating(np.negative, _ROUNDED_ONCE),
    "create_fdiv": _floating(np.divide, _IEEE),
    "create_precise_divf": _floating(np.divide, _IEEE),
    "create_approx_divf": _floating(np.divide, _IEEE),
    "create_precise_sqrt": _floating(np.sqrt, _IEEE),
    # The native square root of f32 flushes denormals, which NumPy's does not.
    "create_sqrt": _floating(np.sqrt, frozenset(("f64",))),
    "create_icmpEQ": _compare(np.equal),
    "create_icmpNE": _compare(np.not_equal),
    "create_icmpSLT": _compare(np.less),
    "create_icmpSLE": _compare(np.less_equal),
    "create_icmpSGT": _compare(np.greater),
    "create_icmpSGE": _compare(np.greater_equal),
    "create_icmpULT": _compare(np.less, unsigned=True),
    "create_icmpULE": _compare(np.less_equal, unsigned=True),
    "create_icmpUGT": _compare(np.greater, unsigned=True),
    "create_icmpUGE": _compare(np.greater_equal, unsigned=True),
    "create_fcmpOEQ": _compare(np.equal),
    "create_fcmpUNE": _compare(np.not_equal),
    "create_fcmpOLT": _compare(np.less),
    "create_fcmpOLE": _compare(np.less_equal),
    "create_fcmpOGT": _compare(np.greater),
    "create_fcmpOGE": _compare(np.greater_equal),
    "create_select": _select,
    "create_int_cast": _int_cast,
    "create_si_to_fp": _int_to_float(signed=True),
    "create_ui_to_fp": _int_to_float(signed=False),
    "create_fp_ext": _float_to_float,
    "create_fp_trunc": _float_to_float,
    "create_bitcast": _reinterpret,
    "create_ptr_to_int": _reinterpret,
    "create_int_to_ptr": _reinterpret,
    "create_addptr": _addptr,
    "create_splat": _splat,
    "create_unsplat": lambda value: value.with_data(value.data.reshape(())),
    "create_broadcast": lambda value, shape: value.with_data(np.broadcast_to(value.data, shape)),
    "create_expand_dims": lambda value, axis: value.with_data(np.expand_dims(value.data, axis)),
    "create_reshape": _reshape,
    "create_trans": lambda value, order: value.with_data(np.transpose(value.data, order)),
    "create_cat": lambda a, b: a.with_data(np.concatenate((a.data, b.data))),
    "create_join": _join,
    "create_split": _split,
    "create_make_range": _make_range,
}
