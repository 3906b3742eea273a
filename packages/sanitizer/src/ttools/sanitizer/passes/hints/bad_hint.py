"""The pass for `bad_hint`: hints of alignment and contiguity that the data contradict.

A wrong hint does harm only if the compiler relies on it, that is, at accesses whose address is
computed from the value. Lanes that contradict a hint are followed into addresses (stage `index`).
Values that are loaded from such an address count as undefined, because a GPU may load other values
(stage `data`). A finding is reported if such data affects a result, as for undefined lanes, or if
the kernel stores to such an address:

    i = tl.multiple_of(start + tl.arange(0, 8), 8)  # start = 3: all lanes contradict the hint
    x = tl.load(p + i)                              # x: lanes may be loaded from elsewhere
    tl.store(q + i, x)                              # reported

Lanes that are not used, as in the clamped tail of a tile, are not a defect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import (
    Attribute,
    Block,
    Constant,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Value,
    element_type,
)
from ttools.ir.dialects.traits import AXIS_INFO, COUNTED, FUNCTION, LOADS
from ttools.ir.rewriting import Builder, Rewriter, replace_uses, with_element
from ttools.ir.semantics import is_view
from ttools.sanitizer.analysis.dataflow import (
    constant_of,
    holder_of,
    is_access,
    is_read,
    operations,
    parameter_of,
)
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.hints.conditions import HINTS, Hint, broken, hint_of, is_kept
from ttools.sanitizer.passes.hints.locations import location_of_hint
from ttools.sanitizer.passes.lanes import lane_builder, outside, within
from ttools.sanitizer.passes.sinks import sinks
from ttools.sanitizer.passes.tracking import Demand, Key, Lookup, State, Tracking
from ttools.sanitizer.passes.undefined_lanes import UNMARKED, UndefinedLanes, mask_of
from ttools.sanitizer.passes.witnesses import CheckSite, operands_shown, values_shown


@dataclass(frozen=True)
class _Broken:
    """The key of lanes that contradict a hint.

    Attributes:
        stage: `index` for integers and pointers that are computed from the value that has the hint;
            `data` for values that are loaded from such addresses.
    """

    hint: Hint
    stage: Literal["index", "data"]


def may_report(module: Module) -> bool:
    """Return whether a kernel has hints or assumptions that cannot be proved."""
    parameters = _divisors(module.kernel)
    for op in operations(module.kernel):
        if op.name == "llvm.intr.assume" or (
            op.has(COUNTED) and any(name.startswith(HINTS) for name in op.attributes)
        ):
            return True
        hint = hint_of(op)
        if hint is not None and not is_kept(hint, parameters):
            return True
    return False


def apply(module: Module) -> list[Note]:
    """Insert the checks of hints into a kernel without calls; the returned list is empty."""
    kernel = module.kernel
    rewriter = Rewriter()
    _anchor_loops(kernel, rewriter)
    rewriter.apply()
    ops = list(operations(kernel))
    for op in ops:
        if op.name == "llvm.intr.assume":
            _check_assumption(rewriter.before(op), op)
    parameters = _divisors(kernel)
    hints = {
        op: hint
        for op in ops
        if (hint := hint_of(op)) is not None and not is_kept(hint, parameters)
    }
    if hints:
        _follow(kernel, ops, hints, rewriter)
    rewriter.apply()
    return []


def _check_assumption(b: Builder, op: Operation) -> None:
    condition = b.negate(op.operands[0])
    compared = op.operands[0].defining_op
    site = CheckSite(b, op, op.operands[0], condition)
    shown = operands_shown(compared, site) if compared is not None else ()
    scalar = next(_scalars(op.operands[0]), None)
    argument = -1 if scalar is None else scalar.index
    defect = _defect(op.location, "a condition given to tl.assume is false", argument)
    insert_check(b, condition, defect, list(shown))


def _scalars(value: Value) -> Iterator[Value]:
    """Yield the integer parameters from which a value is computed."""
    definition = value.defining_op
    if definition is not None:
        for operand in definition.operands:
            yield from _scalars(operand)
    elif isinstance(value.type, IntegerType) and _is_parameter(value):
        yield value


def _is_parameter(value: Value) -> bool:
    holder = holder_of(value.owner) if isinstance(value.owner, Block) else None
    return holder is not None and holder.has(FUNCTION)


def _anchor_loops(kernel: Operation, rewriter: Rewriter) -> None:
    """Move hints about values that a loop carries or returns to separate operations."""
    for op in list(operations(kernel)):
        if not op.has(COUNTED):
            continue
        body = op.regions[0].entry
        for index, argument in enumerate(list(body.arguments)):
            hints = {name: op.attributes.get(f"{name}_arg{index}") for name in HINTS}
            _anchor(rewriter.start(body, _carried_location(op, index)), argument, hints)
            _drop_repeated(op, index, hints)
        if len(op.results) == 1:
            hints = {name: op.attributes.get(name) for name in HINTS}
            _anchor(rewriter.after(op), op.results[0], hints)


def _drop_repeated(loop: Operation, index: int, hints: Mapping[str, Attribute]) -> None:
    """Remove a hint from the initial value if the carried value has the same hint.

    Triton's front end visits the body of a loop twice and attaches the hint to both values.
    """
    carried = loop.operands[index + 2] if index else None
    initial = carried.defining_op if carried else None
    if carried is None or initial is None or len(initial.results) > 1 or len(carried.uses) > 1:
        return
    for name, hint in hints.items():
        if hint is not None and initial.attributes.get(name) == hint:
            del initial.attributes[name]


def _carried_location(loop: Operation, index: int) -> SourceLocation | None:
    """Return a loop's location, with the name of the variable that a block argument carries."""
    *_, end = loop.regions[0].entry.operations
    carried = end.operands[index - 1].defining_op if index else None
    if loop.location is None or carried is None or carried.location is None:
        return loop.location
    return replace(loop.location, name=carried.location.name)


def _anchor(b: Builder, value: Value, hints: Mapping[str, Attribute]) -> None:
    attributes = {name: hint for name, hint in hints.items() if isinstance(hint, Constant)}
    if not attributes:
        return
    element = element_type(value.type)
    if isinstance(element, PointerType):
        zero = b.constant(with_element(value.type, IntegerType(32)), 0)
        same = b.value("tt.addptr", [value, zero], value.type, attributes)
    elif isinstance(element, IntegerType):
        same = b.value("arith.addi", [value, b.constant(value.type, 0)], value.type, attributes)
    else:
        return
    replace_uses(value, same, keep=same.defining_op)


def specialised(module: Module) -> dict[int, int]:
    """Return the divisors for which a kernel was specialised, by index of the parameter."""
    return {argument.index: divisor for argument, divisor in _divisors(module.kernel).items()}


def _divisors(kernel: Operation) -> dict[Value, int]:
    attributes = kernel.attributes["arg_attrs"]
    assert isinstance(attributes, tuple)
    divisors = {}
    for argument, argument_attributes in zip(
        kernel.regions[0].entry.arguments, attributes, strict=False
    ):
        divisor = (
            argument_attributes.get("tt.divisibility")
            if isinstance(argument_attributes, dict)
            else None
        )
        if isinstance(divisor, int):
            divisors[argument] = divisor
    return divisors


def _follow(
    kernel: Operation,
    ops: Sequence[Operation],
    hints: Mapping[Operation, Hint],
    rewriter: Rewriter,
) -> None:
    provenance = Provenance(kernel)
    tracking = Tracking(kernel, _Hints(hints), rewriter)
    accesses = _accesses(ops, tracking, provenance)
    uses = []
    for op in ops:
        for sink in sinks(op):
            is_address = not op.has(LOADS) and sink.value is op.operands[0]
            for key in tracking.state(sink.value):
                assert isinstance(key, _Broken)
                if key.stage == "data" or (is_address and is_access(op)):
                    tracking.demand(sink.value, key)
                    uses.append((sink, key))
    tracking.build()
    for sink, key in uses:
        condition = tracking.shadow(sink.value, key)
        assert condition is not None
        b = rewriter.before(sink.op)
        condition = within(b, condition, sink.mask)
        hinted = key.hint.value.defining_op
        assert hinted is not None
        access, argument = accesses.get(key.hint, (None, -1))
        message = f"the values contradict the hint {key.hint.describe()}"
        if access is not None and access.location is not None:
            noun = access.declaration.noun
            message += f", and the {noun} at line {access.location.line} relies on it"
        location = location_of_hint(hinted.location, frozenset(HINTS) & hinted.attributes.keys())
        shown = values_shown(
            [("value", key.hint.value)], hinted, CheckSite(b, sink.op, sink.value, condition)
        )
        insert_check(b, condition, _defect(location, message, argument), list(shown))


def _accesses(
    ops: Sequence[Operation], tracking: Tracking, provenance: Provenance
) -> dict[Hint, tuple[Operation, int]]:
    """Return, for each hint, the first access that may rely on it, and the access's parameter."""
    accesses: dict[Hint, tuple[Operation, int]] = {}
    for op in ops:
        if not is_access(op):
            continue
        for key in tracking.state(op.operands[0]):
            assert isinstance(key, _Broken)
            if key.stage == "index" and key.hint not in accesses:
                accesses[key.hint] = op, parameter_of(op.operands[0], provenance)
    return accesses


def _defect(location: SourceLocation | None, message: str, argument: int) -> Defect:
    return Defect(
        check="hints",
        kind="bad_hint",
        message=message,
        location=location,
        argument=argument,
    )


class _Hints(UndefinedLanes):
    """The rules by which lanes that contradict hints propagate: in indices, then in loaded data."""

    def __init__(self, hints: Mapping[Operation, Hint]) -> None:
        super().__init__()
        self._hints = hints

    def transfer(self, op: Operation, index: int, lookup: Lookup) -> State:
        state = {
            key: mark
            for key, mark in super().transfer(op, index, lookup).items()
            if not isinstance(key, _Broken) or key.stage == "data" or _goes_on(op, key.hint)
        }
        if op in self._hints:
            state[_Broken(self._hints[op], "index")] = UNMARKED
        if is_read(op):
            for key in lookup.state(op.operands[0]):
                if isinstance(key, _Broken) and key.stage == "index":
                    state[_Broken(key.hint, "data")] = UNMARKED
        return state

    def depends(self, op: Operation, index: int, key: Key, lookup: Lookup) -> Iterator[Demand]:
        assert isinstance(key, _Broken)
        yield from super().depends(op, index, key, lookup)
        if is_read(op) and key.stage == "data":
            yield op.operands[0], _Broken(key.hint, "index")

    def build(self, b: Builder, op: Operation, index: int, key: Key, lookup: Lookup) -> Value:
        assert isinstance(key, _Broken)
        if op in self._hints and self._hints[op] is key.hint and key.stage == "index":
            return broken(b, key.hint)
        if not is_read(op):
            return super().build(b, op, index, key, lookup)
        mask = mask_of(op)
        lanes = []
        address = lookup.shadow(op.operands[0], _Broken(key.hint, "index"))
        if address is not None:
            lanes.append(within(b, address, mask))
        if op.has(LOADS) and len(op.operands) > 2:
            other = lookup.shadow(op.operands[2], key)
            if other is not None:
                lanes.append(outside(b, other, mask))
        return b.any_of(lanes)


def _goes_on(op: Operation, hint: Hint) -> bool:
    """Return whether a hint about an operand also constrains the result."""
    if not (op.has(AXIS_INFO) or is_view(op)) or lane_builder(op) is None:
        return False
    if op.name in ("arith.muli", "arith.shli") and not any(
        n > 1 for n in (*hint.divisibility, *hint.constancy)
    ):  # scaling breaks contiguity but keeps divisibility and constancy
        factors = (constant_of(v) for v in op.operands)
        return any(factor is not None and set(factor.bits) == {1} for factor in factors)
    return True
