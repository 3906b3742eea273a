"""Structured and unstructured control flow, and returns.

Scalars that cross control flow become phis. Tensors are in slots: a yielded tensor is copied to the
slot of the result or block argument that receives it, unless the plan assigns both to the same
slot. If a loop only adds the same number to all elements of a carried tensor in each iteration, as
in `ptrs += stride`, the sum of these numbers is carried as a scalar instead of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from ttools.core.errors import UnsupportedError
from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.analysis.effects import waits
from ttools.interpreter.analysis.strides import tile_order
from ttools.interpreter.emit.callback import call_back, leave_when_aborted
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.instruments.loop_iterations import end_iteration
from ttools.interpreter.llvm.builder import Builder, byte_size, register_type
from ttools.interpreter.llvm.lines import Phi
from ttools.interpreter.llvm.value import Label, SSAValue, integer
from ttools.interpreter.tiles.chunk import origin
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import Block, Operation, PointerType, Value, element_type, shape_of
from ttools.ir.dialects.traits import PURE
from ttools.ir.dialects.ttools import TIMED

#: A loop of at most this many iterations does not check whether the launch was aborted.
_FEW_ITERATIONS = 64
#: A loop whose body has at most this many operations does not check for an abort either, if its
#: induction variable has at most 32 bits and all operations are on scalars and have no effect.
_FEW_OPERATIONS = 8


@root("scf.for")
def for_loop(e: Emitter, op: Operation) -> None:
    lower, upper, step, *inits = op.operands
    body = op.regions[0].entry
    induction, *arguments = body.arguments
    b = e.b
    scalars = [n for n, v in enumerate(inits) if not v.is_tensor]
    moving = [n for n, v in enumerate(arguments) if e.plan.increments.get(v)]
    fill_initial(e, inits, arguments)
    start = [e.scalar(lower), *(e.scalar(inits[n]) for n in scalars)]
    start += [_still(arguments[n]) for n in moving]
    header, inside, done, before = b.label("for"), b.label("body"), b.label("done"), b.block
    b.branch(header)
    b.start(header)
    phis = [b.open_phi("p", value, before) for value in start]
    counter, *carried = (phi.value for phi in phis)
    e.set_scalar(
        induction,
        counter,
        min(e.integers.divisor(e.scalar(lower)), e.integers.divisor(e.scalar(step))),
    )
    for n, name in zip([*scalars], carried, strict=False):
        e.set_scalar(arguments[n], name)
        e.set_scalar(op.results[n], name)
    for n, name in zip(moving, carried[len(scalars) :], strict=True):
        e.deltas[arguments[n]] = e.deltas[op.results[n]] = (inits[n], name)
    for n, argument in enumerate(arguments):
        if e.plan.increments.get(argument) == ():
            e.deltas[argument] = e.deltas[op.results[n]] = (inits[n], _still(argument))
    compare = "ult" if op.attributes.get("unsignedCmp") else "slt"
    again = b.compare(f"icmp {compare}", counter, e.scalar(upper))
    b.cond_branch(again, inside, done)
    b.start(inside)
    e.iterations.append((counter, e.scalar(lower), e.scalar(step)))
    e.block(Block(body.arguments, body.operations[:-1]))
    e.iterations.pop()
    end_iteration(e, op)
    if not _is_short(e, op):
        leave_when_aborted(e, e.add_site(Site(CallbackKind.LOOP, op.location)))
    yielded = body.terminator.operands
    following = [e.scalar(yielded[n]) for n in scalars]
    following += [
        _moved(e, arguments[n], name)
        for n, name in zip(moving, carried[len(scalars) :], strict=True)
    ]
    store_all(e, [(y, a) for y, a in zip(yielded, arguments, strict=True) if e.plan.is_stored(a)])
    counter_next = b.binary("add", counter, e.scalar(step))
    for phi, value in zip(phis, [counter_next, *following], strict=True):
        phi.add(value, b.block)
    b.branch(header)
    b.start(done)
    materialise_results(e, op)


def _is_short(e: Emitter, op: Operation) -> bool:
    """Return whether a loop is known to end soon, so that it need not check for an abort."""
    lower, upper, step = (e.scalar(bound) for bound in op.operands[:3])
    if not step.is_literal or int(step) <= 0:
        return False
    if lower.is_literal and upper.is_literal and not op.attributes.get("unsignedCmp"):
        few = int(upper) - int(lower) <= int(step) * _FEW_ITERATIONS
        if int(lower) >= 0 and few:
            return True
    # A loop over 32-bit numbers whose body consists of a few pure operations on scalars takes
    # seconds at most, and LLVM replaces many such loops by a closed form.
    body = op.regions[0].entry
    return (
        lower.type in ("i8", "i16", "i32")
        and len(body.operations) <= _FEW_OPERATIONS
        and not any(argument.is_tensor for argument in body.arguments)
        and all(inner.has(PURE) and not inner.regions for inner in body.operations[:-1])
    )


def _still(argument: Value) -> SSAValue:
    """Return the literal 0 as an increment of a carried tensor."""
    return integer(0, register_type(element_type(argument.type)))


def materialise_results(e: Emitter, op: Operation) -> None:
    """Store the results of a loop that are expressions of a carried scalar but need a slot."""
    for result in op.results:
        if result in e.deltas and e.plan.is_stored(result):
            e.materialise(result)


def fill_initial(e: Emitter, inits: Sequence[Value], arguments: Sequence[Value]) -> None:
    store_all(e, [(i, a) for i, a in zip(inits, arguments, strict=True) if e.plan.is_stored(a)])


def store_all(e: Emitter, moves: Sequence[tuple[Value, Value]]) -> None:
    """Store each source in its target's slot, as if all were stored at the same time.

    A source is copied first if its slot is overwritten for another target.
    """
    pending: list[tuple[Value | Slot, Slot]] = []
    written: list[Slot] = []
    for source, target in moves:
        slot = e.slot(target)
        value: Value | Slot = source
        if e.plan.is_stored(source):
            own = e.slot(source)
            if own == slot:
                continue
            value = own
        pending.append((value, slot))
        written.append(slot)
    ready: list[tuple[Value | Slot, Slot]] = []
    for value, slot in pending:
        if isinstance(value, Slot) and value in written:
            spare = e.new_slot(value.shape, value.element, widened=value.widened)
            e.copy_slot(value, spare)
            value = spare
        ready.append((value, slot))
    for value, slot in ready:
        if isinstance(value, Slot):
            e.copy_slot(value, slot)
        else:
            order = tile_order(value, e.plan.is_stored, e.strides)
            e.fill(slot, lambda at, v=value: e.evaluate(v, at), order)  # type: ignore[misc]


def _moved(e: Emitter, argument: Value, delta: SSAValue) -> SSAValue:
    """Return the sum of increments that a carried tensor has in the next iteration.

    Args:
        delta: The sum in the current iteration.
    """
    element = element_type(argument.type)
    for addend in e.plan.increments[argument]:
        with e.fresh_memo():
            chunk = e.evaluate(addend, origin(len(shape_of(addend.type))))
        step = e.vector(chunk)
        if isinstance(element, PointerType):
            step = e.integers.multiply(e.integers.convert(step, "i64"), byte_size(element.pointee))
        delta = e.integers.add(delta, step)
    return delta


@root("scf.while")
def while_loop(e: Emitter, op: Operation) -> None:
    before_block, after_block = (r.entry for r in op.regions)
    b = e.b
    scalars = [n for n, v in enumerate(op.operands) if not v.is_tensor]
    fill_initial(e, op.operands, before_block.arguments)
    header, inside, done, entry = b.label("while"), b.label("do"), b.label("done"), b.block
    b.branch(header)
    b.start(header)
    start = [integer(0, "i32"), *(e.scalar(op.operands[n]) for n in scalars)]
    count, *phis = [b.open_phi("p", value, entry) for value in start]
    iterations = b.binary("add", count.value, 1)
    for n, phi in zip(scalars, phis, strict=True):
        e.set_scalar(before_block.arguments[n], phi.value)
    called = {name: callee.function for name, callee in e.signature.callees.items()}
    if waits(op, called):
        _spin(e, op, iterations)
    else:
        _notice_abort(e, op, iterations)
    e.iterations.append((iterations, integer(1, "i32"), integer(1, "i32")))
    e.block(Block(before_block.arguments, before_block.operations[:-1]))
    condition, *passed = before_block.terminator.operands
    for value, argument, result in zip(passed, after_block.arguments, op.results, strict=True):
        if not value.is_tensor:
            e.set_scalar(argument, e.scalar(value))
            e.set_scalar(result, e.scalar(value))
    pairs = list(zip(passed, after_block.arguments, op.results, strict=True))
    b.cond_branch(e.scalar(condition), inside, done)
    b.start(inside)
    store_all(e, [(v, a) for v, a, _ in pairs if v.is_tensor])
    e.block(Block(after_block.arguments, after_block.operations[:-1]))
    e.iterations.pop()
    end_iteration(e, op)
    yielded = after_block.terminator.operands
    moves = zip(yielded, before_block.arguments, strict=True)
    store_all(e, [(v, a) for v, a in moves if v.is_tensor])
    count.add(iterations, b.block)
    for n, phi in zip(scalars, phis, strict=True):
        phi.add(e.scalar(yielded[n]), b.block)
    b.branch(header)
    b.start(done)
    store_all(e, [(v, r) for v, _, r in pairs if v.is_tensor])


def _spin(e: Emitter, op: Operation, iterations: SSAValue) -> None:
    """Call the runtime in every 64th iteration of a loop that waits for memory."""
    b = e.b
    with _now_and_then(b, iterations):
        text = TIMED if op.attributes.get(TIMED) else ""
        site = e.add_site(Site(CallbackKind.SPIN, op.location, text))
        # The runtime uses the iteration number to distinguish one long wait from several short ones
        # in the same loop.
        wide = b.cast("zext", iterations, "i64")
        call_back(e, CallbackKind.SPIN, site, b.cast("inttoptr", wide, "ptr"))


def _notice_abort(e: Emitter, op: Operation, iterations: SSAValue) -> None:
    """Check in every 64th iteration whether the launch was aborted; the loop may never end."""
    site = e.add_site(Site(CallbackKind.ENDLESS, op.location))
    with _now_and_then(e.b, iterations):
        leave_when_aborted(e, site)


def _now_and_then(b: Builder, iterations: SSAValue) -> AbstractContextManager[None]:
    """Return a context whose code runs only in every 64th iteration of a loop."""
    due = b.compare("icmp eq", b.binary("and", iterations, 63), 0)
    return b.only_if(due, "due", "not_due")


@root("scf.if")
def conditional(e: Emitter, op: Operation) -> None:
    b = e.b
    then, otherwise, done = b.label("then"), b.label("else"), b.label("endif")
    b.cond_branch(e.scalar(op.operands[0]), then, otherwise)
    incoming: list[tuple[list[SSAValue], Label]] = []
    scalars = [n for n, v in enumerate(op.results) if not v.is_tensor]
    blocks = [region.entry if region.blocks else None for region in op.regions]
    for label, block in zip((then, otherwise), [*blocks, None], strict=False):
        b.start(label)
        if block is not None:
            with e.side():
                e.block(Block(block.arguments, block.operations[:-1]))
                yielded = block.terminator.operands
                moves = zip(yielded, op.results, strict=True)
                store_all(e, [(v, r) for v, r in moves if v.is_tensor])
            incoming.append(([e.scalar(yielded[n]) for n in scalars], b.block))
        else:
            incoming.append(([], b.block))
        b.branch(done)
    b.start(done)
    for k, n in enumerate(scalars):
        edges = [(values[k], block) for values, block in incoming]
        e.set_scalar(op.results[n], b.phi(*edges))


# ---- unstructured control flow


def region_blocks(e: Emitter, blocks: Sequence[Block]) -> None:
    """Emit the blocks of a function's body; the rules of `cf.br` and `cf.cond_br` emit branches."""
    phis: dict[Block, list[Phi]] = {}
    for block in blocks[1:]:
        e.labels[block] = e.b.label("bb")
        for argument in block.arguments:
            if not argument.is_tensor:
                phi = Phi(e.b.fresh(register_type(argument.type), "a"))
                phis.setdefault(block, []).append(phi)
                e.set_scalar(argument, phi.value)
    for block in blocks:
        if block is not blocks[0]:
            e.b.start(e.labels[block])
            e.b.lines += phis.get(block, [])
        e.begun.add(block)
        e.block(block)
    for block in phis:
        for label, values in e.edges[block]:
            for phi, value in zip(phis[block], values, strict=True):
                phi.add(value, label)


def _edge(e: Emitter, target: Block, forwarded: Sequence[Value]) -> Label:
    """Move the values that a branch passes to its target, and return the target's label."""
    moves = zip(forwarded, target.arguments, strict=True)
    store_all(e, [(v, a) for v, a in moves if v.is_tensor])
    if target in e.begun:  # a backward branch, which makes a loop
        location = target.operations[0].location
        leave_when_aborted(e, e.add_site(Site(CallbackKind.ENDLESS, location)))
    values = [e.scalar(v) for v in forwarded if not v.is_tensor]
    e.edges.setdefault(target, []).append((e.b.block, values))
    return e.labels[target]


@root("cf.br")
def branch(e: Emitter, op: Operation) -> None:
    ((target, forwarded),) = op.successors
    e.b.branch(_edge(e, target, forwarded))


@root("cf.cond_br")
def cond_branch(e: Emitter, op: Operation) -> None:
    b = e.b
    sides = [b.label("taken"), b.label("not")]
    b.cond_branch(e.scalar(op.operands[0]), *sides)
    for label, (target, forwarded) in zip(sides, op.successors, strict=True):
        b.start(label)
        b.branch(_edge(e, target, forwarded))


@root("tt.return")
def return_(e: Emitter, op: Operation) -> None:
    e.return_values(op.operands)


@root("scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return")
def terminator(e: Emitter, op: Operation) -> None:
    raise UnsupportedError(f"{op.name} outside of its region", op.location)
