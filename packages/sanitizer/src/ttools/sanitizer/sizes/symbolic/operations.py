"""What operations on integers, pointers and tiles compute, as polynomials.

Each rule is right for machine integers where the needs of its result are met; where no rule is,
the result is a number of which only the range is known. Must not know control flow nor memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ttools.interpreter.ir import (
    Constant,
    IntegerType,
    Operation,
    PointerType,
    Value,
    as_signed,
    element_type,
    shape_of,
)
from ttools.sanitizer.passes.combining import combined_by
from ttools.sanitizer.sizes.algebra.polynomials import (
    LANE,
    ZERO,
    Poly,
    as_poly,
    floordiv,
    maximum,
    minimum,
    modulo,
)
from ttools.sanitizer.sizes.attributes import axis_of, range_of, width_of
from ttools.sanitizer.sizes.host.paths import NotModelledError
from ttools.sanitizer.sizes.rules import Rules
from ttools.sanitizer.sizes.symbolic.state import State
from ttools.sanitizer.sizes.symbolic.values import (
    NO_NEEDS,
    AnyValue,
    Case,
    Logic,
    Need,
    Number,
    Opaque,
    alternatives,
    compare,
    facts_of,
    joined,
    lane,
    lanes_moved,
    needs_of,
    negated,
    number,
)

_Rule: TypeAlias = "Callable[[State, Operation], AnyValue]"
_rule: Rules[_Rule] = Rules()


def evaluate(kernel: State, op: Operation) -> list[AnyValue]:
    """The results of an operation that neither accesses memory nor has control flow."""
    rule = _rule.get(op.name)
    if rule is not None and len(op.results) == 1:
        return [rule(kernel, op)]
    if not op.results:
        if op.name.startswith(("tt.descriptor", "ttg.")):
            raise NotModelledError(f"`{op.name}` of the kernel")
        return []
    return [_otherwise(kernel, op, result) for result in op.results]


def _otherwise(kernel: State, op: Operation, result: Value) -> AnyValue:
    if isinstance(element_type(result.type), (IntegerType, PointerType)):
        return kernel.havoc(result)
    given = [kernel.get(v) for v in op.operands]
    return Opaque(all(_is_uniform(v) for v in given) and not op.regions)


def _is_uniform(value: AnyValue) -> bool:
    if isinstance(value, Opaque):
        return value.uniform
    if isinstance(value, Number):
        single = value.single
        return single is not None and all(s.level <= 1 for s in single.base_symbols())
    return value.kind == "true"


def _is_condition(value: Value) -> bool:
    return width_of(value) == 1


def _exact(kernel: State, op: Operation, poly: Poly, kind: str = "wrap") -> frozenset[Need]:
    """What it takes that the result holds a polynomial; nothing where its range shows it."""
    half = 1 << (width_of(op.results[0]) - 1)
    if kernel.space.within(poly, -half, half - 1):
        return NO_NEEDS
    return frozenset({Need(op, poly, -half, half - 1, kind)})  # type: ignore[arg-type]


def _combined(
    kernel: State,
    op: Operation,
    function: Callable[..., Poly | None],
) -> Number:
    """The results of all combinations of the operands' cases."""
    numbers = [kernel.number(v) for v in op.operands]
    combinations = joined(*numbers)
    if combinations is None:
        return kernel.unknown(op.results[0])
    cases = []
    for each in combinations:
        value = function(*(c.value for c in each))
        if value is None:
            return kernel.unknown(op.results[0])
        needs = needs_of(each) | _exact(kernel, op, value)
        cases.append(Case(value, facts_of(each), needs))
    return Number(tuple(cases))


def _linear(function: Callable[..., Poly | None]) -> _Rule:
    def rule(kernel: State, op: Operation) -> AnyValue:
        if _is_condition(op.results[0]):
            return Logic("unknown")
        return _combined(kernel, op, function)

    return rule


@_rule("arith.shli")
def _shift_left(kernel: State, op: Operation) -> AnyValue:
    bits = kernel.number(op.operands[1]).single
    amount = None if bits is None else bits.constant
    if amount is None or not 0 <= amount < 63 or _is_condition(op.results[0]):
        return _otherwise(kernel, op, op.results[0])
    return _combined(kernel, op, lambda p, _: p * (1 << amount))


def _division(function: Callable[[Poly, Poly], Poly]) -> _Rule:
    """Quotients and remainders where numerator and divisor are seen to be of one kind."""

    def rule(kernel: State, op: Operation) -> AnyValue:
        combinations = joined(*(kernel.number(v) for v in op.operands))
        if combinations is None:
            return kernel.unknown(op.results[0])
        cases = []
        half = 1 << (width_of(op.results[0]) - 1)
        for p, d in combinations:
            facts = [f.poly for f in (*facts_of((p, d)), *kernel.context) if not f.needs]
            nonneg = kernel.space.nonneg
            if not nonneg(d.value - 1, facts):
                return kernel.unknown(op.results[0])
            needs = needs_of((p, d))
            if not nonneg(p.value, facts):
                # Rounded towards 0, so below 0 the quotient is another.
                needs = needs | {Need(op, p.value, 0, half - 1, "model")}
            value = function(p.value, d.value)
            if nonneg(p.value, facts) and nonneg(d.value - 1 - p.value, facts):
                value = p.value if function is modulo else ZERO
            cases.append(Case(value, facts_of((p, d)), needs))
        return Number(tuple(cases))

    return rule


def _extreme(is_minimum: bool) -> _Rule:
    def rule(kernel: State, op: Operation) -> AnyValue:
        def function(p: Poly, q: Poly) -> Poly:
            low, high = kernel.space.range(p - q)
            if high is not None and high <= 0:
                return p if is_minimum else q
            if low is not None and low >= 0:
                return q if is_minimum else p
            return minimum(p, q) if is_minimum else maximum(p, q)

        return _combined(kernel, op, function)

    return rule


@_rule("arith.andi")
def _and(kernel: State, op: Operation) -> AnyValue:
    if _is_condition(op.results[0]):
        return Logic("and", tuple(kernel.logic(v) for v in op.operands))
    left, right = (kernel.number(v) for v in op.operands)
    for value, mask in ((left, right), (right, left)):
        bits = None if mask.single is None else mask.single.constant
        if bits is not None and bits >= 0 and bits & (bits + 1) == 0 and len(value.cases) == 1:
            (case,) = value.cases
            low = kernel.space.range(case.value)[0]
            if low is not None and low >= 0:
                return Number((Case(modulo(case.value, as_poly(bits + 1)), case.when, case.needs),))
    bits = next(
        (c for v in (left, right) if (p := v.single) is not None and (c := p.constant) is not None),
        None,
    )
    if bits is not None and bits >= 0:
        return kernel.unknown(op.results[0], 0, bits)
    return kernel.unknown(op.results[0])


@_rule("arith.ori")
def _or(kernel: State, op: Operation) -> AnyValue:
    if _is_condition(op.results[0]):
        return Logic("or", tuple(kernel.logic(v) for v in op.operands))
    return kernel.unknown(op.results[0])


@_rule("arith.xori")
def _xor(kernel: State, op: Operation) -> AnyValue:
    if _is_condition(op.results[0]):
        for value, other in (op.operands, reversed(op.operands)):
            if kernel.logic(other).kind == "true":
                return negated(kernel.logic(value))
        return Logic("unknown")
    return kernel.unknown(op.results[0])


@_rule("arith.shrsi", "arith.shrui")
def _shift_right(kernel: State, op: Operation) -> AnyValue:
    bits = kernel.number(op.operands[1]).single
    amount = None if bits is None else bits.constant
    value = kernel.number(op.operands[0])
    if amount is None or not 0 <= amount < 63 or _is_condition(op.results[0]):
        return _otherwise(kernel, op, op.results[0])
    if op.name == "arith.shrui":
        lows = [kernel.space.range(c.value)[0] for c in value.cases]
        if any(low is None or low < 0 for low in lows):
            return kernel.unknown(op.results[0])
    divisor = as_poly(1 << amount)
    return Number(tuple(Case(floordiv(c.value, divisor), c.when, c.needs) for c in value.cases))


@_rule("arith.cmpi")
def _compare(kernel: State, op: Operation) -> AnyValue:
    predicate = str(op.attributes["predicate"])
    if _is_condition(op.operands[0]):
        return Logic("unknown")
    left, right = (kernel.number(v) for v in op.operands)
    if any(c.base is not None for v in (left, right) for c in v.cases):
        return Logic("unknown")
    if predicate.startswith("u"):
        for each in (*left.cases, *right.cases):
            low = kernel.space.range(each.value)[0]
            if low is None or low < 0:
                return Logic("unknown")
    relation = predicate.lstrip("su") if predicate not in ("eq", "ne") else predicate
    if relation in ("eq", "ne"):
        found = compare("eq", left, right)
        return found if relation == "eq" else negated(found)
    if relation in ("gt", "lt"):
        one, other = (right, left) if relation == "gt" else (left, right)
        return negated(compare("ge", one, other))
    one, other = (left, right) if relation == "ge" else (right, left)
    return compare("ge", one, other)


@_rule("arith.select")
def _select(kernel: State, op: Operation) -> AnyValue:
    result = op.results[0]
    condition = kernel.logic(op.operands[0])
    one, other = kernel.get(op.operands[1]), kernel.get(op.operands[2])
    if _is_condition(result):
        a, b = kernel.logic(op.operands[1]), kernel.logic(op.operands[2])
        chosen = Logic("and", (condition, a))
        return Logic("or", (chosen, Logic("and", (negated(condition), b))))
    if isinstance(one, Opaque) and isinstance(other, Opaque):
        return Opaque(False)
    cases = [
        Case(c.value, (*facts, *c.when), c.needs, c.base)
        for value, way in ((op.operands[1], condition), (op.operands[2], negated(condition)))
        for facts in alternatives(way)
        for c in kernel.number(value).cases
    ]
    return Number(tuple(cases)) if 0 < len(cases) <= 8 else kernel.unknown(result)


@_rule("arith.extui")
def _extend_unsigned(kernel: State, op: Operation) -> AnyValue:
    value = kernel.get(op.operands[0])
    if isinstance(value, Logic):
        return kernel.from_logic(value, op.results[0])
    known = kernel.number(op.operands[0])
    cases = []
    for case in known.cases:
        low = kernel.space.range(case.value)[0]
        needs = case.needs
        if low is None or low < 0:
            high = (1 << (width_of(op.operands[0]) - 1)) - 1
            needs = needs | {Need(op, case.value, 0, high, "model")}
        cases.append(Case(case.value, case.when, needs))
    return Number(tuple(cases))


@_rule("arith.trunci")
def _truncate(kernel: State, op: Operation) -> AnyValue:
    if _is_condition(op.results[0]):
        return Logic("unknown")
    value = kernel.number(op.operands[0])
    return Number(
        tuple(Case(c.value, c.when, c.needs | _exact(kernel, op, c.value)) for c in value.cases)
    )


@_rule("tt.splat", "tt.broadcast", "tt.bitcast", "arith.extsi", "arith.index_cast")
def _same(kernel: State, op: Operation) -> AnyValue:
    value = kernel.get(op.operands[0])
    result = op.results[0]
    kind = element_type(result.type)
    if isinstance(value, Logic) and not _is_condition(result):
        # An extension by sign has all bits set.
        ones = kernel.from_logic(value, op.operands[0])
        return Number(tuple(Case(-c.value, c.when, c.needs) for c in ones.cases))
    if isinstance(value, Opaque) and isinstance(kind, (IntegerType, PointerType)):
        return _otherwise(kernel, op, result)
    if isinstance(value, Number) and not isinstance(kind, (IntegerType, PointerType)):
        return Opaque(False)
    return value


@_rule("arith.constant")
def _constant(kernel: State, op: Operation) -> AnyValue:
    value, result = op.attributes["value"], op.results[0]
    kind = element_type(result.type)
    if not isinstance(kind, IntegerType):
        return Opaque(isinstance(value, Constant) and value.is_splat)
    if not isinstance(value, Constant) or not value.is_splat:
        return _otherwise(kernel, op, result)
    bits = as_signed(value.bits[0], kind.width)
    if kind.width == 1:
        return Logic("true") if bits else negated(Logic("true"))
    return number(bits)


@_rule("tt.make_range")
def _range(kernel: State, op: Operation) -> AnyValue:
    start, end = range_of(op)
    return number(start + _lane(kernel, 0, end - start))


def _lane(kernel: State, axis: int, extent: int) -> Poly:
    if extent == 1:
        return ZERO
    symbol = lane(axis, extent)
    kernel.space.declare(symbol, 0, extent - 1)
    return as_poly(symbol)


def _moved(kernel: State, op: Operation, axes: dict[int, int], how: object) -> AnyValue:
    value = kernel.get(op.operands[0])
    if isinstance(value, Opaque):
        return value
    for axis, extent in enumerate(shape_of(op.results[0].type)):
        _lane(kernel, axis, extent)
    renamer = lanes_moved(axes, how)
    found = renamer.value(value)
    data = {s: p for s, p in renamer.replaced.items() if s.level > LANE}
    kernel.space.copy_declarations(data)
    return found


@_rule("tt.expand_dims")
def _expand_dims(kernel: State, op: Operation) -> AnyValue:
    at = op.attributes["axis"]
    assert isinstance(at, int)
    rank = len(shape_of(op.operands[0].type))
    return _moved(kernel, op, {a: a + 1 for a in range(at, rank)}, ("expand", at))


@_rule("tt.trans")
def _transpose(kernel: State, op: Operation) -> AnyValue:
    order = op.attributes.get("order")
    assert isinstance(order, tuple)
    axes = {int(old): new for new, old in enumerate(order)}  # type: ignore[arg-type]
    return _moved(kernel, op, axes, ("transpose", tuple(axes.items())))


@_rule("tt.reshape")
def _reshape(kernel: State, op: Operation) -> AnyValue:
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    value = kernel.get(op.operands[0])
    long_old = [a for a, e in enumerate(old) if e > 1]
    long_new = [a for a, e in enumerate(new) if e > 1]
    if [old[a] for a in long_old] != [new[a] for a in long_new]:
        if isinstance(value, Opaque):
            return value
        return _otherwise(kernel, op, op.results[0])
    axes = dict(zip(long_old, long_new, strict=True))
    return _moved(kernel, op, axes, ("reshape", tuple(axes.items())))


@_rule("tt.addptr")
def _add_pointer(kernel: State, op: Operation) -> AnyValue:
    combinations = joined(*(kernel.number(v) for v in op.operands))
    if combinations is None:
        return kernel.unknown(op.results[0])
    return Number(
        tuple(
            Case(p.value + n.value, facts_of((p, n)), needs_of((p, n)), p.base)
            for p, n in combinations
        )
    )


@_rule("tt.get_program_id")
def _program_id(kernel: State, op: Operation) -> AnyValue:
    return number(kernel.programs[axis_of(op)])


@_rule("tt.get_num_programs")
def _num_programs(kernel: State, op: Operation) -> AnyValue:
    return number(kernel.launch.grid[axis_of(op)])


@_rule("tt.reduce")
def _reduce(kernel: State, op: Operation) -> AnyValue:
    """Of a minimum or maximum the range is that of the elements."""
    result = op.results[0]
    known = kernel.get(op.operands[0])
    if isinstance(known, Number) and combined_by(op) in ("arith.minsi", "arith.maxsi"):
        ranges = [kernel.space.range(c.value) for c in known.cases]
        if not any(c.needs for c in known.cases) and all(None not in r for r in ranges):
            low, high = min(r[0] or 0 for r in ranges), max(r[1] or 0 for r in ranges)
            return kernel.unknown(result, low, high)
    return _otherwise(kernel, op, result)


_rule("arith.addi")(_linear(lambda p, q: p + q))
_rule("arith.subi")(_linear(lambda p, q: p - q))
_rule("arith.muli")(_linear(lambda p, q: p * q))
_rule("arith.divsi", "arith.floordivsi")(_division(floordiv))
_rule("arith.remsi")(_division(modulo))
_rule("arith.minsi")(_extreme(True))
_rule("arith.maxsi")(_extreme(False))
