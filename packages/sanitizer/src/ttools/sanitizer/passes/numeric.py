"""The pass `numeric`: origins of NaN, infinity, divisions by zero and wrong integers.

A NaN originates in a lane where the result of an operation is NaN and no operand is; the same rule
defines the origin of an infinity. The origin is reported only if it reaches memory: the marked
lanes are followed to stores, where the value must still be NaN or infinite, and to addresses. Lanes
that a mask or `tl.where` discards do not count as origins. For example:

    s = tl.sum(e)      # 0.0
    y = e / s          # 0 / 0: a NaN originates here
    z = y + 1.0        # NaN, but from an operand that is NaN
    tl.store(p, z)     # reported, at the division

The check of a NaN also passes boolean variables, which show whether infinities of known origin are
among its operands.

An infinity may disappear again: if a sum or product overflows and a number is divided by it, the
quotient is zero. The infinity is then reported where that zero reaches memory (kind `lost` below).
An exponential that overflows is not reported in this case, because a sigmoid is computed correctly
that way.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ttools.core.location import user_location
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import (
    FloatType,
    IntegerType,
    Module,
    Operation,
    Value,
    element_type,
)
from ttools.ir.dialects.declaration import Invalid
from ttools.ir.dialects.traits import (
    CHOOSES,
    CROSS_LANE,
    DIVIDES,
    ELEMENTWISE,
    LOADS,
    PURE,
)
from ttools.ir.rewriting import Builder, Rewriter
from ttools.ir.semantics import is_view
from ttools.sanitizer.analysis.dataflow import (
    constant_of,
    is_access,
    is_read,
    operations,
    parameter_of,
)
from ttools.sanitizer.passes import truncated_division
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.lanes import (
    compare_floats,
    float_constant,
    lane_builder,
    outside,
    within,
)
from ttools.sanitizer.passes.lost_values import (
    Unsigned,
    is_lost,
    may_lose,
    propagates,
)
from ttools.sanitizer.passes.narrow_sums import narrow_sums
from ttools.sanitizer.passes.sinks import Sink, sinks
from ttools.sanitizer.passes.tracking import Demand, Key, Lookup, State, Tracking
from ttools.sanitizer.passes.undefined_lanes import UNMARKED, UndefinedLanes
from ttools.sanitizer.passes.witnesses import CheckSite, operands_shown, values_shown

#: The kind `lost` stands for an infinity by which a value was divided, so that the result is zero.
_Kind = Literal["nan", "inf", "div_by_zero", "lost", "int_overflow", "truncated_division"]
#: Kinds of marks on integers that only operations on integers pass on to their results.
_INTEGRAL: tuple[_Kind, ...] = ("int_overflow", "truncated_division")
#: Kinds whose paths are the first to be left out if there are too many.
_LAST: tuple[_Kind, ...] = ("lost", "truncated_division")
_MESSAGES = {
    "nan": "a NaN originates here and reaches memory",
    "inf": "an infinity originates here and reaches memory",
    "div_by_zero": "a division by zero reaches memory",
    "lost": "an infinity originates here, and a division by it reaches memory as zero",
}
_FINITE = "keep both finite, for example by subtracting the maximum before exp"
#: By operation: how a NaN results from operands that are not NaN, and advice against it.
_NANS: dict[Invalid, tuple[str, str]] = {
    "product": ("0 times infinity", _FINITE),
    "sum": ("the sum of two opposite infinities", _FINITE),
    "difference": (
        "infinity minus infinity",
        "keep one of them finite: take 0 for the maximum of a row that is all -inf, for example",
    ),
    "quotient": (
        "0 / 0, or infinity / infinity,",
        "guard the denominator, or keep numerator and denominator finite",
    ),
    "root": (
        "the root of a negative number",
        "keep the operand from being negative: tl.maximum(x, 0)",
    ),
    "logarithm": (
        "the logarithm of a negative number",
        "keep the operand positive: tl.maximum(x, 1e-6)",
    ),
}
#: Value of `origin` that distinguishes wrapped narrow sums among the findings of the check
#: `overflow`.
NARROW_SUM = "narrow sum"
#: Prefix of the boolean variables that are true if an infinity of a known origin is involved.
ORIGIN = "born "
_MOST_INFINITIES = 4
#: The kinds of origins of infinities.
_INFINITE: tuple[_Kind, ...] = ("inf", "div_by_zero")
_MOST_CHECKS = 96
#: Operations for which an infinite result means overflow, named by the kind of NaN that they may
#: produce.
_OVERFLOWING: tuple[Invalid, ...] = ("product", "sum", "difference")
#: Bit patterns of infinity by element type.
_INFINITIES = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}


@dataclass(frozen=True)
class _Origin:
    """The lanes of result `index` in which a kind of value originates."""

    op: Operation
    index: int
    kind: _Kind


def _divides(op: Operation) -> bool:
    """Return whether an operation divides its first operand by its second operand."""
    return op.has(DIVIDES) or op.declaration.unit == "divide"


def apply(
    module: Module, unsigned: Collection[int] = (), *, only_narrow_sums: bool = False
) -> list[Note]:
    """Insert the checks into a module that contains no calls.

    Args:
        module: The module to rewrite.
        unsigned: Indices of the parameters that are pointers to unsigned integers.
        only_narrow_sums: If True, insert only the checks of `narrow_sums`, as checks of `overflow`.

    Returns:
        What could not be checked.
    """
    kernel = module.kernel
    check = "overflow" if only_narrow_sums else "numeric"
    provenance = Provenance(kernel)
    rewriter = Rewriter()
    only = narrow_sums(module) if only_narrow_sums else None
    rules = _Origins(Unsigned(kernel, unsigned), only)
    tracking = Tracking(kernel, rules, rewriter, _MOST_CHECKS)
    paths: list[tuple[Sink, _Origin]] = [
        (sink, key)
        for op in operations(kernel)
        if is_access(op)
        for sink in sinks(op)
        if sink.value is not sink.mask
        for key in tracking.state(sink.value)
        if isinstance(key, _Origin)
        # The check `overflow` handles addresses, using the arguments of the launch.
        and not (key.kind == "int_overflow" and sink.value is op.address)
    ]
    paths.sort(key=lambda pair: pair[1].kind in _LAST and _LAST.index(pair[1].kind) + 1)
    checked = tracking.affordable(
        [(sink.value, key), *_infinite_operands(tracking, key)]
        for sink, key in paths[:_MOST_CHECKS]
    )
    tracking.build()
    for sink, key in paths[:checked]:
        _check(rewriter, tracking, sink, key, parameter_of(sink.op.operands[0], provenance), check)
    rewriter.apply()
    what = f"paths of {'narrow sums' if only_narrow_sums else 'NaN and infinity'} to memory"
    return tracking.left_out(f"only {checked}", checked, len(paths), what)


def unsigned_parameters(types: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of the parameters that are pointers to unsigned integers.

    Args:
        types: Types of the parameters as Triton spells them, such as `*u8`.
    """
    return tuple(n for n, name in enumerate(types) if name.startswith("*u"))


def _check(
    rewriter: Rewriter,
    tracking: Tracking,
    sink: Sink,
    origin: _Origin,
    argument: int,
    check: str,
) -> None:
    condition = tracking.shadow(sink.value, origin)
    assert condition is not None
    b = rewriter.before(sink.op)
    condition = within(b, condition, _is_of_kind(b, sink.value, origin.kind))
    condition = within(b, condition, sink.mask)
    message, help_line = _words(origin)
    site = CheckSite(b, sink.op, sink.value, condition)
    infinities = [
        (key.op, shadow)
        for value, key in _infinite_operands(tracking, origin)
        if (shadow := tracking.shadow(value, key)) is not None
    ]
    named = [(f"{ORIGIN}{n}", shadow) for n, (_, shadow) in enumerate(infinities)]
    shown = [
        (name, value)
        for name, value in values_shown(named, origin.op, site)
        if name.startswith(ORIGIN)
    ]
    insert_check(
        b,
        condition,
        Defect(
            check=check,
            kind="inf" if origin.kind == "lost" else origin.kind,
            message=message,
            location=origin.op.location,
            argument=argument,
            help=help_line,
            severity="warning" if check == "overflow" else "",
            origin=NARROW_SUM if check == "overflow" else "",
            origins=tuple(user_location(op.location) or op.location for op, _ in infinities),
        ),
        [*operands_shown(origin.op, site), *shown],
    )


def _words(origin: _Origin) -> tuple[str, str]:
    """Return the message for an origin, and its help.

    The help is empty unless it is more specific than the help of the kind.
    """
    if origin.kind == "int_overflow":
        return f"{may_lose(origin.op)} and reaches memory", ""
    if origin.kind == "truncated_division":
        symbol = truncated_division.symbol(origin.op)
        return truncated_division.MESSAGE.format(symbol), truncated_division.HELP
    cause = _NANS.get(origin.op.declaration.invalid)
    if origin.kind != "nan" or cause is None:
        return _MESSAGES[origin.kind], ""
    description, help_line = cause
    return f"{description} is a NaN here and reaches memory", help_line


def _infinite_operands(tracking: Tracking, key: Key) -> list[tuple[Value, _Origin]]:
    """Return the infinities of known origin among the operands of an operation that makes a NaN."""
    if not isinstance(key, _Origin) or key.kind != "nan":
        return []
    operands: dict[_Origin, Value] = {}
    for value in key.op.operands:
        for origin in tracking.state(value):
            if isinstance(origin, _Origin) and origin.kind in _INFINITE and origin.op is not key.op:
                operands.setdefault(origin, value)
    # Origins are in the order of operations, so the last ones are the nearest.
    return [(value, origin) for origin, value in operands.items()][-_MOST_INFINITIES:]


class _Origins(UndefinedLanes):
    """Rules that propagate origins in the same way as undefined lanes.

    Args:
        stores: Accesses to tensors of unsigned integers.
        only: If given, origins are limited to wrapped integers in these operations; None for all
            origins.
    """

    def __init__(self, stores: Unsigned, only: frozenset[Operation] | None = None) -> None:
        super().__init__()
        self._stores, self._only = stores, only

    def transfer(self, op: Operation, index: int, lookup: Lookup) -> State:
        # Origins have no masks, so a state to which nothing is added can be reused as it is.
        passed_on = [v for n, v in self._flowing(op) if not op.has(LOADS) or n == 2]
        origins = self._origins_in(op, index, lookup)
        if (
            len(passed_on) == 1
            and not origins
            and propagates(op, passed_on[0])
            and truncated_division.propagates(op)
        ):
            return lookup.state(passed_on[0])
        state: dict[Key, Hashable] = {}
        for value in passed_on:
            keeps = is_read(op) or propagates(op, value)
            state.update(
                (key, mark)
                for key, mark in lookup.state(value).items()
                if keeps or (isinstance(key, _Origin) and key.kind not in _INTEGRAL)
            )
        if not truncated_division.propagates(op):
            state = {key: mark for key, mark in state.items() if not _is_truncated(key)}
        return state | dict.fromkeys(origins, UNMARKED)

    def _origins_in(self, op: Operation, index: int, lookup: Lookup) -> list[_Origin]:
        if self._only is not None:
            return [_Origin(op, index, "int_overflow")] if op in self._only else []
        return [*_origins(op, index), *_lost(op, lookup)]

    def depends(self, op: Operation, index: int, key: Key, lookup: Lookup) -> Iterator[Demand]:
        yield from super().depends(op, index, key, lookup)
        if isinstance(key, _Origin) and key in _lost(op, lookup):
            yield op.operands[-1], replace(key, kind="inf")

    def build(self, b: Builder, op: Operation, index: int, key: Key, lookup: Lookup) -> Value:
        assert isinstance(key, _Origin)
        # The origin of a lost infinity is the operation that overflowed, but its lanes begin at the
        # division. In a loop, they can return to the operation that overflowed.
        begins = key.op is op and key.kind != "lost"
        parts = [_originates(b, op, index, key.kind, self._stores)] if begins else []
        if self._comes_through(op, key, lookup):
            parts.append(self._propagated(b, op, index, key, lookup))
        if key in _lost(op, lookup):
            infinite = lookup.shadow(op.operands[-1], replace(key, kind="inf"))
            assert infinite is not None
            parts.append(within(b, infinite, _is_of_kind(b, op.operands[-1], "inf")))
        return b.any_of(parts)

    def _propagated(self, b: Builder, op: Operation, index: int, key: Key, lookup: Lookup) -> Value:
        if not op.has(LOADS):
            return super().build(b, op, index, key, lookup)
        marked = lookup.shadow(op.operands[2], key)
        assert marked is not None
        return outside(b, marked, op.operands[1])


def _is_truncated(key: Key) -> bool:
    return isinstance(key, _Origin) and key.kind == "truncated_division"


def _origins(op: Operation, index: int) -> list[_Origin]:
    """Return what may originate in one result of an operation."""
    kinds: list[_Kind] = []
    if _divides(op) and not _is_nonzero(op.operands[1]):
        kinds.append("div_by_zero")
    # `tt.map_elementwise` calls a user-defined function and is not declared pure.
    computes = op.has(ELEMENTWISE) or (op.has(PURE) and op.has(CROSS_LANE))
    chooses = op.has(CHOOSES) or is_view(op)
    if computes and not chooses and _infinity(op.results[index]) is not None:
        kinds += ["nan", "inf"]
    if may_lose(op):
        kinds.append("int_overflow")
    if truncated_division.symbol(op):
        kinds.append("truncated_division")
    return [_Origin(op, index, kind) for kind in kinds]


def _lost(op: Operation, lookup: Lookup) -> list[_Origin]:
    """Return the overflowed sums and products by which an operation may divide."""
    divides = _divides(op) and _infinity(op.results[0]) is not None
    if not divides and not op.name.endswith("rsqrt"):
        return []
    return [
        replace(key, kind="lost")
        for key in lookup.state(op.operands[-1])
        if isinstance(key, _Origin)
        and key.kind == "inf"
        and (key.op.has(CROSS_LANE) or key.op.declaration.invalid in _OVERFLOWING)
    ]


def _is_nonzero(value: Value) -> bool:
    data = constant_of(value)
    return data is not None and all(data.bits)


def _infinity(value: Value) -> int | None:
    element = element_type(value.type)
    return _INFINITIES.get(element.name) if isinstance(element, FloatType) else None


def _originates(b: Builder, op: Operation, index: int, kind: _Kind, stores: Unsigned) -> Value:
    if kind == "div_by_zero":
        return _is_zero(b, op.operands[1])
    if kind == "int_overflow":
        return is_lost(b, op, stores)
    if kind == "truncated_division":
        return truncated_division.is_truncated(b, op)
    fresh = _is_of_kind(b, op.results[index], kind)
    assert fresh is not None
    parts: Sequence[Value | None] = [_is_of_kind(b, v, kind) for v in op.operands]
    if kind == "inf":
        # If an operand is NaN or infinite, it explains the infinity, which then originates
        # elsewhere.
        others = [_is_of_kind(b, v, "nan") for v in op.operands]
        parts = [
            b.binary("ori", x, y) if x is not None and y is not None else None
            for x, y in zip(parts, others, strict=True)
        ]
    make = lane_builder(op)
    if make is not None and any(part is not None for part in parts):
        fresh = outside(b, fresh, make(b, op, index, parts))
    by_zero = kind == "inf" and _divides(op)
    return outside(b, fresh, _is_zero(b, op.operands[1])) if by_zero else fresh


def _is_of_kind(b: Builder, value: Value, kind: _Kind) -> Value | None:
    """Build the condition that a float is NaN or infinite; None for other values or other kinds."""
    infinity = _infinity(value)
    if infinity is None or kind not in ("nan", "inf"):
        return None
    if kind == "nan":
        return compare_floats(b, "uno", value, value)
    magnitude = b.value("math.absf", [value], value.type)
    return compare_floats(b, "oeq", magnitude, float_constant(b, value.type, infinity))


def _is_zero(b: Builder, value: Value) -> Value:
    if isinstance(element_type(value.type), IntegerType):
        return b.compare("eq", value, b.constant(value.type, 0))
    return compare_floats(b, "oeq", value, float_constant(b, value.type, 0))
