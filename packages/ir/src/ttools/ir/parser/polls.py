"""Expands `tt.atomic_poll` into a loop around an atomic load, which is what it means.

So whatever knows loops that wait for other programs (the scheduler of blocked programs, the search
for deadlocks, the race check, counting) knows polls too.

    %p = tt.atomic_poll acquire, gpu, %flag, %n : !tt.ptr<i32>, i32 -> i1

becomes, with `%p` a constant,

    scf.while : () -> () {
      %seen = tt.atomic_load acquire, gpu, %flag, %true : (!tt.ptr<i32>, i1) -> i32
      %again = arith.cmpi ne, %seen, %n : i32
      scf.condition(%again)
    } do { scf.yield }

The loop of a tile carries the lanes that have seen their number, and loads the others only. With
a timeout the loads of the loop are relaxed, and an acquiring load of the lanes that have seen
their number follows: "timed-out elements acquire no results", as Triton documents it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.ir import Block, IntegerType, Module, Operation, Region, Value, element_type
from ttools.ir.dialects.ttools import TIMED
from ttools.ir.rewriting import (
    BOOLEAN,
    Builder,
    Rewriter,
    add_argument,
    replace_uses,
    with_element,
)

POLL = "tt.atomic_poll"


def expand_polls(module: Module) -> None:
    """Make loops of the polls of a module."""
    rewriter, polls = Rewriter(), []
    for op in module.walk():
        if op.name == POLL:
            result = _expand(rewriter.before(op), op)
            result.defining_op.location = op.location  # type: ignore[union-attr]
            replace_uses(op.result, result)
            polls.append(op)
    rewriter.apply()
    for op in polls:
        for index, value in enumerate(op.operands):
            value.uses.remove((op, index))
        assert op.parent is not None
        op.parent.operations.remove(op)


def _expand(b: Builder, poll: Operation) -> Value:
    """Emit the loop of a poll, and return which lanes have seen their number."""
    timeout = poll.operand("timeout")
    start = b.value("ttools.nanoseconds", [], IntegerType(64)) if timeout is not None else None
    sem = poll.attributes["sem"] if timeout is None else "relaxed"
    tile = poll.result.is_tensor
    carried = [b.constant(poll.result.type, 0)] if tile else []
    before, after = Block(), Block()
    inside = Builder(before.operations, before, b.location)
    if tile:
        result = _seen_by_tile(inside, poll, sem, add_argument(before, poll.result.type))
        add_argument(after, poll.result.type)
    else:
        result = _equal(inside, poll, sem, inside.constant(BOOLEAN, 1))
    every = result
    while every.is_tensor:
        every = inside.combine("tt.reduce", every, 0, "andi")
    again = inside.negate(every)
    if timeout is not None and start is not None:
        now = inside.value("ttools.nanoseconds", [], IntegerType(64))
        in_time = inside.compare("ult", inside.binary("subi", now, start), timeout)
        again = inside.binary("andi", again, in_time)
    handed_on = [result] if tile or timeout is not None else []
    inside.operation("scf.condition", [again, *handed_on])
    if handed_on and not tile:
        add_argument(after, BOOLEAN)
    Builder(after.operations, after, b.location).operation(
        "scf.yield", after.arguments if tile else []
    )
    loop = _loop(b, carried, handed_on, (before, after))
    if timeout is None:
        return b.constant(poll.result.type, 1)
    loop.attributes[TIMED] = True
    if poll.attributes["sem"] == "acquire":
        _load(b, poll, "acquire", loop.result)
    return b.binary("andi", loop.result, b.constant(poll.result.type, 1))


def _loop(
    b: Builder, carried: Sequence[Value], results: Sequence[Value], blocks: Sequence[Block]
) -> Operation:
    regions = [Region([block]) for block in blocks]
    for block, region in zip(blocks, regions, strict=True):
        block.parent = region
    return b.operation("scf.while", carried, [v.type for v in results], {}, regions)


def _seen_by_tile(b: Builder, poll: Operation, sem: object, known: Value) -> Value:
    """Emit a look at the lanes that have not seen their number yet; return those that have."""
    missing = b.negate(known)
    equal = _equal(b, poll, sem, missing)
    # What the others loaded is undefined.
    never = b.constant(poll.result.type, 0)
    return b.binary("ori", known, b.select(missing, equal, never))


def _equal(b: Builder, poll: Operation, sem: object, mask: Value) -> Value:
    expected = poll.operand("expected")
    assert expected is not None
    return b.compare("eq", _load(b, poll, sem, mask), expected)


def _load(b: Builder, poll: Operation, sem: object, mask: Value) -> Value:
    expected = poll.operand("expected")
    assert expected is not None
    attributes = {"sem": sem, "scope": poll.attributes["scope"]}
    type = with_element(poll.address.type, element_type(expected.type))
    return b.value("tt.atomic_load", [poll.address, mask], type, attributes)  # type: ignore[arg-type]
