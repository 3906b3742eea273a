"""numeric (opt-in): where NaN, infinity, divisions by zero and wrong integers originate.

A NaN originates where the result of an operation is one and no operand was; infinity likewise.
Origins are reported at the operation, but only if they get to memory: the lanes are followed to
what is stored, which must still be NaN or infinite, and to addresses. What a mask leaves out or
`tl.where` discards is no origin. The check of a NaN also shows, by a variable for each, which
infinities that originated before are among its operands.

An infinity may also be lost: a sum or product that overflows, and what is divided by it is zero. It
is reported as the infinity that it was, where that zero gets to memory. An exponential that
overflows is none: a sigmoid is right so.
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
from ttools.ir.dialects import declared
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
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.lanes import lane_builder, outside, within
from ttools.sanitizer.passes.lost_values import (
    Unsigned,
    compare_floats,
    float_constant,
    hands_on,
    is_lost,
    may_lose,
)
from ttools.sanitizer.passes.sinks import Sink, sinks
from ttools.sanitizer.passes.tracking import Demand, Key, Known, State, Tracking
from ttools.sanitizer.passes.undefined_lanes import UNMARKED, UndefinedLanes
from ttools.sanitizer.passes.witnesses import CheckSite, operands_shown, values_shown

#: `lost` is an infinity by which something was divided.
_Kind = Literal["nan", "inf", "div_by_zero", "lost", "int_overflow"]
_MESSAGES = {
    "nan": "a NaN originates here and reaches memory",
    "inf": "an infinity originates here and reaches memory",
    "div_by_zero": "a division by zero reaches memory",
    "lost": "an infinity originates here, and what is divided by it reaches memory as zero",
}
_FINITE = "keep both finite, for example by subtracting the maximum before exp"
#: How a NaN comes of operands that are none, and what to do about it.
_NANS: dict[Invalid, tuple[str, str]] = {
    "product": ("0 times infinity", _FINITE),
    "sum": ("the sum of two opposite infinities", _FINITE),
    "difference": (
        "infinity less infinity",
        "keep one of them finite: take 0 for the maximum of a row that is all -inf, for example",
    ),
    "quotient": (
        "0 / 0, or infinity by infinity,",
        "guard the denominator, or keep both from being infinite",
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
#: How the variables begin that say of which origin an infinity is, by its number.
ORIGIN = "born "
_MOST_BIRTHS = 4
#: The kinds of origins of infinities.
_INFINITE: tuple[_Kind, ...] = ("inf", "div_by_zero")
_MOST_CHECKS = 96
#: What bears infinities of numbers that have an exact result, by what else it may bear.
_OVERFLOWING: tuple[Invalid, ...] = ("product", "sum", "difference")
#: Exponent and fraction bits, for the pattern of infinity.
_INFINITIES = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}


@dataclass(frozen=True)
class _Origin:
    """The lanes of a result in which a kind of value originates."""

    op: Operation
    index: int
    kind: _Kind


def _divides(op: Operation) -> bool:
    """Whether an operation divides its first operand by its second one."""
    return op.has(DIVIDES) or declared(op.name).unit == "divide"


def apply(module: Module, unsigned: Collection[int] = ()) -> list[Note]:
    """Adds the checks of NaN, infinity and division by zero to a kernel without calls.

    Args:
        module: the kernel; rewritten in place.
        unsigned: the parameters that are pointers to unsigned integers.

    Returns:
        What could not be checked.
    """
    kernel = module.kernel
    provenance = Provenance(kernel)
    rewriter = Rewriter()
    rules = _Origins(Unsigned(kernel, unsigned))
    tracking = Tracking(kernel, rules, rewriter, _MOST_CHECKS)
    found: list[tuple[Sink, _Origin]] = [
        (sink, key)
        for op in operations(kernel)
        if is_access(op)
        for sink in sinks(op)
        if sink.value is not sink.mask
        for key in tracking.state(sink.value)
        if isinstance(key, _Origin)
        # Addresses are for `overflow`, which knows what the numbers of the launch leave room for.
        and not (key.kind == "int_overflow" and sink.value is op.address)
    ]
    found.sort(key=lambda pair: pair[1].kind == "lost")  # the rest is checked first
    checked = tracking.affordable(
        [(sink.value, key), *_births(tracking, key)] for sink, key in found[:_MOST_CHECKS]
    )
    tracking.build()
    for sink, key in found[:checked]:
        _check(rewriter, tracking, sink, key, provenance)
    rewriter.apply()
    what = "paths of NaN and infinity to memory"
    return tracking.left_out(f"only {checked}", checked, len(found), what)


def _check(
    rewriter: Rewriter, tracking: Tracking, sink: Sink, origin: _Origin, provenance: Provenance
) -> None:
    condition = tracking.shadow(sink.value, origin)
    assert condition is not None
    b = rewriter.before(sink.op)
    condition = within(b, condition, _is_of_kind(b, sink.value, origin.kind))
    condition = within(b, condition, sink.mask)
    message, help_line = _words(origin)
    stand = CheckSite(b, sink.op, sink.value, condition)
    births = [
        (key.op, shadow)
        for value, key in _births(tracking, origin)
        if (shadow := tracking.shadow(value, key)) is not None
    ]
    named = [(f"{ORIGIN}{n}", shadow) for n, (_, shadow) in enumerate(births)]
    shown = [each for each in values_shown(named, origin.op, stand) if each[0].startswith(ORIGIN)]
    insert_check(
        b,
        condition,
        Defect(
            check="numeric",
            kind="inf" if origin.kind == "lost" else origin.kind,
            message=message,
            location=origin.op.location,
            argument=parameter_of(sink.op.operands[0], provenance),
            help=help_line,
            origins=tuple(user_location(op.location) or op.location for op, _ in births),
        ),
        [*operands_shown(origin.op, stand), *shown],
    )


def _words(origin: _Origin) -> tuple[str, str]:
    """The message of an origin, and what helps if that is known better than of its kind."""
    if origin.kind == "int_overflow":
        return f"{may_lose(origin.op)} and reaches memory", ""
    known = _NANS.get(declared(origin.op.name).invalid)
    if origin.kind != "nan" or known is None:
        return _MESSAGES[origin.kind], ""
    what, help_line = known
    return f"{what} is a NaN here and reaches memory", help_line


def _births(tracking: Tracking, key: Key) -> list[tuple[Value, _Origin]]:
    """The infinities of known origin that may be among the operands of what bears a NaN."""
    if not isinstance(key, _Origin) or key.kind != "nan":
        return []
    found: dict[_Origin, Value] = {}
    for value in key.op.operands:
        for born in tracking.state(value):
            if isinstance(born, _Origin) and born.kind in _INFINITE and born.op is not key.op:
                found.setdefault(born, value)
    # Origins follow each other as the operations do: the last ones are the nearest.
    return [(value, born) for born, value in found.items()][-_MOST_BIRTHS:]


class _Origins(UndefinedLanes):
    """Lanes in which something originated, followed as undefined ones are."""

    def __init__(self, stores: Unsigned) -> None:
        super().__init__()
        self._stores = stores

    def transfer(self, op: Operation, index: int, known: Known) -> State:
        # Origins have no masks, so that what is handed on need not be looked at one by one.
        handed = [v for n, v in self._flowing(op) if not op.has(LOADS) or n == 2]
        origins = [*_origins(op, index), *_lost(op, known)]
        if len(handed) == 1 and not origins and hands_on(op, handed[0]):
            return known.state(handed[0])
        found: dict[Key, Hashable] = {}
        for value in handed:
            keeps = is_read(op) or hands_on(op, value)
            found.update(
                (key, mark)
                for key, mark in known.state(value).items()
                if keeps or (isinstance(key, _Origin) and key.kind != "int_overflow")
            )
        return found | dict.fromkeys(origins, UNMARKED)

    def depends(self, op: Operation, index: int, key: Key, known: Known) -> Iterator[Demand]:
        yield from super().depends(op, index, key, known)
        if isinstance(key, _Origin) and key in _lost(op, known):
            yield op.operands[-1], replace(key, kind="inf")

    def build(self, b: Builder, op: Operation, index: int, key: Key, known: Known) -> Value:
        assert isinstance(key, _Origin)
        found = [_born(b, op, index, key.kind, self._stores)] if key.op is op else []
        if self._comes_through(op, key, known):
            found.append(self._handed_on(b, op, index, key, known))
        if key in _lost(op, known):
            infinite = known.shadow(op.operands[-1], replace(key, kind="inf"))
            assert infinite is not None
            found.append(within(b, infinite, _is_of_kind(b, op.operands[-1], "inf")))
        return b.any_of(found)

    def _handed_on(self, b: Builder, op: Operation, index: int, key: Key, known: Known) -> Value:
        if not op.has(LOADS):
            return super().build(b, op, index, key, known)
        marked = known.shadow(op.operands[2], key)
        assert marked is not None
        return outside(b, marked, op.operands[1])


def _origins(op: Operation, index: int) -> list[_Origin]:
    """What an operation may bear."""
    kinds: list[_Kind] = []
    if _divides(op) and not _is_nonzero(op.operands[1]):
        kinds.append("div_by_zero")
    # A function of the user's, called for each lane, is not pure as far as is known.
    computes = op.has(ELEMENTWISE) or (op.has(PURE) and op.has(CROSS_LANE))
    chooses = op.has(CHOOSES) or is_view(op)
    if computes and not chooses and _infinity(op.results[index]) is not None:
        kinds += ["nan", "inf"]
    if may_lose(op):
        kinds.append("int_overflow")
    return [_Origin(op, index, kind) for kind in kinds]


def _lost(op: Operation, known: Known) -> list[_Origin]:
    """The sums and products by whose infinity an operation may divide: its last operand."""
    divides = _divides(op) and _infinity(op.results[0]) is not None
    if not divides and not op.name.endswith("rsqrt"):
        return []
    return [
        replace(key, kind="lost")
        for key in known.state(op.operands[-1])
        if isinstance(key, _Origin)
        and key.kind == "inf"
        and (key.op.has(CROSS_LANE) or declared(key.op.name).invalid in _OVERFLOWING)
    ]


def _is_nonzero(value: Value) -> bool:
    data = constant_of(value)
    return data is not None and all(data.bits)


def _infinity(value: Value) -> int | None:
    element = element_type(value.type)
    return _INFINITIES.get(element.name) if isinstance(element, FloatType) else None


def _born(b: Builder, op: Operation, index: int, kind: _Kind, stores: Unsigned) -> Value:
    if kind == "div_by_zero":
        return _is_zero(b, op.operands[1])
    if kind == "int_overflow":
        return is_lost(b, op, stores)
    fresh = _is_of_kind(b, op.results[index], kind)
    assert fresh is not None
    parts: Sequence[Value | None] = [_is_of_kind(b, v, kind) for v in op.operands]
    if kind == "inf":
        # A NaN or an infinity among the operands explains both.
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
    """Where a float is NaN or infinite; None for other values and kinds."""
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
