"""Replacement of `tt.atomic_poll` by an equivalent loop around an atomic load.

All code that handles loops which wait for other programs (the scheduler of blocked programs, the
search for deadlocks, the race check, counting) then handles polls, too.

    %p = tt.atomic_poll acquire, gpu, %flag, %n : !tt.ptr<i32>, i32 -> i1

becomes the following loop, and `%p` becomes the constant True:

    scf.while : () -> () {
      %seen = tt.atomic_load acquire, gpu, %flag, %true : (!tt.ptr<i32>, i1) -> i32
      %again = arith.cmpi ne, %seen, %n : i32
      scf.condition(%again)
    } do { scf.yield }

For a tile, the loop carries the mask of the lanes that have already loaded the expected number, and
loads only the other lanes. With a timeout, the loads in the loop are relaxed. An acquiring load
follows the loop, only for the lanes that have loaded the expected number, because "timed-out
elements acquire no results" (Triton's documentation).
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
    """Replace the polls of a module by loops."""
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
    """Emit the loop of a poll, and return the mask of lanes that loaded the expected number."""
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
    """Emit a load of the lanes that are not in the mask `known`, and return the new mask.

    The masks contain the lanes that have loaded the expected number.
    """
    missing = b.negate(known)
    equal = _equal(b, poll, sem, missing)
    # The load has an undefined result in the lanes that it does not access.
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
