"""Structured and unstructured control flow, calls and returns.

Scalars that cross control flow become phis.  Tensors live in slots: what is yielded is copied
into the slot of what it becomes, unless the plan made them one, and loop-carried tensors that only
grow by uniform increments carry one scalar instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ttools.core.errors import UnsupportedError
from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.analysis.effects import waits
from ttools.interpreter.analysis.strides import tile_order
from ttools.interpreter.emit.callback import call_back, leave_when_aborted
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.instruments.loop_turns import end_turn
from ttools.interpreter.ir import Block, Operation, PointerType, Value, element_type, shape_of
from ttools.interpreter.llvm.builder import Builder, byte_size, register_type
from ttools.interpreter.tiles.chunk import origin
from ttools.interpreter.tiles.slot import Slot


class Phis:
    """Phi nodes whose second incoming values are known only later."""

    def __init__(self, e: Emitter, types: Sequence[str], before: str, inits: Sequence[str]) -> None:
        self.e, self.types, self.before, self.inits = e, types, before, inits
        self.names = [e.b.fresh("p") for _ in types]
        e.b.types |= dict(zip(self.names, types, strict=True))
        self._line = len(e.b.lines)
        e.b.lines.extend([""] * len(types))

    def close(self, block: str, values: Sequence[str]) -> None:
        rows = zip(self.names, self.types, self.inits, values, strict=True)
        for n, (name, type, init, value) in enumerate(rows):
            self.e.b.lines[self._line + n] = (
                f"  {name} = phi {type} [{init}, %{self.before}], [{value}, %{block}]"
            )


@root("scf.for")
def for_loop(e: Emitter, op: Operation) -> None:
    lower, upper, step, *inits = op.operands
    body = op.regions[0].entry
    induction, *arguments = body.arguments
    b, itype = e.b, register_type(lower.type)
    scalars = [n for n, v in enumerate(inits) if not v.is_tensor]
    moving = [n for n, v in enumerate(arguments) if e.plan.increments.get(v)]
    fill_initial(e, inits, arguments)
    types = [itype, *(register_type(inits[n].type) for n in scalars)]
    types += [register_type(element_type(arguments[n].type)) for n in moving]
    start = [e.scalar(lower), *(e.scalar(inits[n]) for n in scalars), *("0" for _ in moving)]
    header, inside, done, before = b.label("for"), b.label("body"), b.label("done"), b.block
    b.branch(header)
    b.start(header)
    phis = Phis(e, types, before, start)
    counter, *carried = phis.names
    e.set_scalar(induction, counter, min(e.divisor(e.scalar(lower)), e.divisor(e.scalar(step))))
    for n, name in zip([*scalars], carried, strict=False):
        e.set_scalar(arguments[n], name)
        e.set_scalar(op.results[n], name)
    for n, name in zip(moving, carried[len(scalars) :], strict=True):
        e.deltas[arguments[n]] = e.deltas[op.results[n]] = (inits[n], name)
    for n, argument in enumerate(arguments):
        if e.plan.increments.get(argument) == ():
            e.deltas[argument] = e.deltas[op.results[n]] = (inits[n], "0")
    compare = "ult" if op.attributes.get("unsignedCmp") else "slt"
    again = b.emit(f"icmp {compare} {itype} {counter}, {e.scalar(upper)}")
    b.cond_branch(again, inside, done)
    b.start(inside)
    e.turns.append((itype, counter, e.scalar(lower), e.scalar(step)))
    e.block(Block(body.arguments, body.operations[:-1]))
    e.turns.pop()
    end_turn(e, op)
    yielded = body.terminator.operands
    following = [e.scalar(yielded[n]) for n in scalars]
    following += [
        _moved(e, arguments[n], name)
        for n, name in zip(moving, carried[len(scalars) :], strict=True)
    ]
    store_all(e, [(y, a) for y, a in zip(yielded, arguments, strict=True) if e.plan.is_stored(a)])
    counter_next = b.emit(f"add {itype} {counter}, {e.scalar(step)}")
    phis.close(b.block, [counter_next, *following])
    b.branch(header)
    b.start(done)
    materialise_results(e, op)


def materialise_results(e: Emitter, op: Operation) -> None:
    """Stores results that are kept as expressions but are wanted in memory."""
    for result in op.results:
        if result in e.plan.stored and result in e.deltas:
            e.materialise(result)


def fill_initial(e: Emitter, inits: Sequence[Value], arguments: Sequence[Value]) -> None:
    store_all(e, [(i, a) for i, a in zip(inits, arguments, strict=True) if e.plan.is_stored(a)])


def store_all(e: Emitter, moves: Sequence[tuple[Value, Value]]) -> None:
    """Stores each source in its target's slot, as if all at once."""
    pending: list[tuple[Value | Slot, Slot]] = []
    written: list[Slot] = []
    for source, target in moves:
        slot = e.slot(target)
        value: Value | Slot = source
        if e.plan.is_stored(source):
            held = e.slot(source)
            if held == slot:
                continue
            value = held
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
            order = tile_order(value, e.plan.is_stored)
            e.fill(slot, lambda at, v=value: e.evaluate(v, at), order)  # type: ignore[misc]


def _moved(e: Emitter, argument: Value, delta: str) -> str:
    """The carried increment of the next iteration."""
    element = element_type(argument.type)
    for addend in e.plan.increments[argument]:
        with e.fresh_memo():
            chunk = e.evaluate(addend, origin(len(shape_of(addend.type))))
        step, type = e.vector(chunk), register_type(element_type(addend.type))
        if isinstance(element, PointerType):
            wide = e.convert_int(step, type, "i64")
            step, type = e.imul("i64", wide, str(byte_size(element.pointee))), "i64"
        delta = e.iadd(type, delta, step)
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
    types = [register_type(op.operands[n].type) for n in scalars]
    phis = Phis(e, ["i32", *types], entry, ["0", *(e.scalar(op.operands[n]) for n in scalars)])
    turns = b.emit(f"add i32 {phis.names[0]}, 1")
    for n, name in zip(scalars, phis.names[1:], strict=True):
        e.set_scalar(before_block.arguments[n], name)
    (_spin if waits(op) else _notice_abort)(e, op, turns)
    e.turns.append(("i32", turns, "1", "1"))
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
    e.turns.pop()
    end_turn(e, op)
    yielded = after_block.terminator.operands
    moves = zip(yielded, before_block.arguments, strict=True)
    store_all(e, [(v, a) for v, a in moves if v.is_tensor])
    phis.close(b.block, [turns, *(e.scalar(yielded[n]) for n in scalars)])
    b.branch(header)
    b.start(done)
    store_all(e, [(v, r) for v, _, r in pairs if v.is_tensor])


def _spin(e: Emitter, op: Operation, turns: str) -> None:
    """Tells the runtime, every 64th turn, that this program waits on memory."""
    b = e.b
    with _now_and_then(b, turns):
        site = e.add_site(Site(CallbackKind.SPIN, op.location))
        # The turn tells the runtime one long wait from many short ones at the same place.
        wide = b.emit(f"zext i32 {turns} to i64")
        call_back(e, CallbackKind.SPIN, site, b.emit(f"inttoptr i64 {wide} to ptr"))


def _notice_abort(e: Emitter, op: Operation, turns: str) -> None:
    """Looks, every 64th turn, whether the launch goes on: the loop may never end by itself."""
    e.add_site(Site(CallbackKind.ENDLESS, op.location))
    with _now_and_then(e.b, turns):
        leave_when_aborted(e)


@contextmanager
def _now_and_then(b: Builder, turns: str) -> Iterator[None]:
    """What is emitted meanwhile is run in every 64th turn of a loop."""
    low = b.emit(f"and i32 {turns}, 63")
    due = b.emit(f"icmp eq i32 {low}, 0")
    yes, no = b.label("due"), b.label("not_due")
    b.cond_branch(due, yes, no)
    b.start(yes)
    yield
    b.branch(no)
    b.start(no)


@root("scf.if")
def conditional(e: Emitter, op: Operation) -> None:
    b = e.b
    then, otherwise, done = b.label("then"), b.label("else"), b.label("endif")
    b.cond_branch(e.scalar(op.operands[0]), then, otherwise)
    incoming: list[tuple[list[str], str]] = []
    scalars = [n for n, v in enumerate(op.results) if not v.is_tensor]
    blocks = [region.entry if region.blocks else None for region in op.regions]
    for label, block in zip((then, otherwise), [*blocks, None], strict=False):
        b.start(label)
        if block is not None:
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
        result = op.results[n]
        edges = ", ".join(f"[{values[k]}, %{block}]" for values, block in incoming)
        e.set_scalar(result, b.emit(f"phi {register_type(result.type)} {edges}"))


# ---- unstructured control flow


def region_blocks(e: Emitter, blocks: Sequence[Block]) -> None:
    """Emits the blocks of a function body; branches were left to `cf.br` and `cf.cond_br`."""
    for block in blocks[1:]:
        e.labels[block] = e.b.label("bb")
        for argument in block.arguments:
            if not argument.is_tensor:
                name = e.b.fresh("a")
                e.b.types[name] = register_type(argument.type)
                e.set_scalar(argument, name)
    for block in blocks:
        if block is not blocks[0]:
            e.b.start(e.labels[block])
            e.phi_lines[block] = len(e.b.lines)
            e.b.lines.extend([""] * sum(not a.is_tensor for a in block.arguments))
        e.block(block)
    for block in blocks[1:]:
        for n, argument in enumerate(a for a in block.arguments if not a.is_tensor):
            edges = ", ".join(f"[{values[n]}, %{label}]" for label, values in e.edges[block])
            type = register_type(argument.type)
            e.b.lines[e.phi_lines[block] + n] = f"  {e.scalar(argument)} = phi {type} {edges}"


def _edge(e: Emitter, target: Block, forwarded: Sequence[Value]) -> str:
    """Moves forwarded values for a branch to `target`; returns its label."""
    moves = zip(forwarded, target.arguments, strict=True)
    store_all(e, [(v, a) for v, a in moves if v.is_tensor])
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
