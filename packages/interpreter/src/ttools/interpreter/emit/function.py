"""Emission of one function: scalars as SSA values, tensors chunk by chunk as the schedule requires.

`Emitter` contains the state of the function and three ways to obtain a value: `scalar` returns an
SSA name, `evaluate` returns a chunk of a tile, which is computed or read from its slot, and
`materialise` emits a loop nest that fills a slot. The files in `lower/` define how operations are
computed. They register functions in two tables: rules in `FUSED` compute a chunk of a result on
demand; rules in `ROOTS` execute an operation that has an effect or needs the whole tile, at its
place in the program.

For example, consider `tl.store(out_ptr + offs, tl.load(x_ptr + offs) * 2)` with 64 elements. If
`x_ptr` is read-only, the plan stores no tile, and the only rule of `ROOTS` that emits code is that
of the store. It emits a loop over chunks of 16 lanes, and evaluates the pointers and the value of
each chunk. This evaluates the load by its rule in `FUSED`:

    loop1:
      %i3 = phi i32 [0, %entry], [%16, %loop1]
      …                                           ; the addresses of lane 0, %10 and %14
      %12 = load <16 x float>, ptr %10, align 4
      %13 = fmul <16 x float> %12, splat (float 2.0)
      store <16 x float> %13, ptr %14, align 4
      %16 = add nuw nsw i32 %i3, 16
      %17 = icmp ult i32 %16, 64
      br i1 %17, label %loop1, label %end2

If `out_ptr` may point to the same storage, the plan stores the load. `materialise` then emits a
loop that fills its slot, and in the loop of the store, `evaluate` reads the slot instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import ttools.interpreter.elementwise as elementwise
from ttools.core.errors import UnsupportedError
from ttools.core.process.phases import tick
from ttools.interpreter.abi.module import EmitOptions, Site
from ttools.interpreter.analysis.strides import memory_order, tile_order
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import (
    ARENA,
    FALSE,
    Label,
    SSAValue,
    integer,
    poison,
    vector_type,
    zeros,
)
from ttools.interpreter.schedule.plan import Plan
from ttools.interpreter.tiles.chunk import (
    ZERO,
    Affine,
    Chunk,
    Coords,
    Vector,
    moved,
    origin,
    uniform,
)
from ttools.interpreter.tiles.integers import Integers
from ttools.interpreter.tiles.literals import fold
from ttools.interpreter.tiles.loops import Traversal, for_each_chunk, traversal
from ttools.interpreter.tiles.slot import Slot
from ttools.interpreter.tiles.transpose import can_transpose, fill_transposed
from ttools.ir import (
    Block,
    Operation,
    TensorType,
    Type,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.dialects.coordinates import Lanes
from ttools.ir.dialects.traits import DISPLACES, LOADS
from ttools.ir.domains.strides import StrideAnalysis
from ttools.ir.semantics import moved_lanes

if TYPE_CHECKING:
    from ttools.interpreter.emit.instruments.probe import Prober

FusedRule = Callable[["Emitter", Operation, int, Coords], Chunk]
RootRule = Callable[["Emitter", Operation], None]

#: Rules that compute a chunk of one of the results of an operation, by the operation's name.
FUSED: dict[str, FusedRule] = {}
#: Rules that execute an operation at its place in the program, by the operation's name.
ROOTS: dict[str, RootRule] = {}
#: Names of rules for patterns of several operations that the plan recognises.
LANE_SWAP, FUSION_GROUP = "ttools.lane_swap", "ttools.fusion_group"
#: The largest depth of recursive evaluation. Each operation takes several frames of Python's stack.
_MOST_NESTED = 24


def fused(*names: str) -> Callable[[FusedRule], FusedRule]:
    """Register a rule that computes a chunk of an operation's result."""

    def register(rule: FusedRule) -> FusedRule:
        FUSED.update(dict.fromkeys(names, rule))
        return rule

    return register


def root(*names: str) -> Callable[[RootRule], RootRule]:
    """Register a rule that executes an operation at its place in the program."""

    def register(rule: RootRule) -> RootRule:
        ROOTS.update(dict.fromkeys(names, rule))
        return rule

    return register


def _keeps_coordinates(op: Operation) -> bool:
    """Return whether an element of the result only depends on the same element of the operands."""
    if op.has(DISPLACES, LOADS):
        return True
    return elementwise.is_elementwise(op.name) and elementwise.is_lanewise(op)


@dataclass(frozen=True, slots=True)
class Callee:
    """A function that has been emitted, so that other functions may call it."""

    function: Operation
    symbol: str
    return_type: str
    arena_bytes: int


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The calling convention of a function that is emitted, and the functions that it may call.

    Attributes:
        return_type: The LLVM type of the result: a structure of a status and the scalar results.
        outs: Addresses of the slots that receive the tiles that the function returns.
        callees: Functions that have been emitted, by name.
        parameters: Indices of the kernel's parameters; empty in functions that it calls.
        is_foreign: Returns whether a pointer may contain an address of another device.
        parameter_count: The number of the kernel's parameters. The table that translates such
            addresses is passed as the parameter with this index.
    """

    return_type: str
    outs: tuple[SSAValue, ...]
    callees: Mapping[str, Callee]
    parameters: Mapping[Value, int]
    is_foreign: Callable[[Value], bool]
    parameter_count: int


class Emitter:
    """The state of one function being emitted.

    Args:
        plan: The schedule of the function.
        options: The options of code generation.
        sites: The places of the module that may call back; the emitter adds to them.
        signature: The calling convention of the function.
        prober: The instruments of the function; None without instruments.
    """

    def __init__(
        self,
        b: Builder,
        plan: Plan,
        options: EmitOptions,
        sites: list[Site],
        signature: Signature,
        prober: Prober | None,
    ) -> None:
        self.b, self.integers = b, Integers(b)
        self.plan, self.options, self.sites = plan, options, sites
        self.strides = StrideAnalysis()
        self.signature, self.prober = signature, prober
        self.scalars: dict[Value, SSAValue] = {}
        self.slots: dict[Value, Slot] = {}
        self.deltas: dict[Value, tuple[Value, SSAValue]] = {}
        self.arena_bytes = 0
        self.labels: dict[Block, Label] = {}
        self.edges: dict[Block, list[tuple[Label, list[SSAValue]]]] = {}
        #: The blocks emitted so far. A branch to one of them is a backward branch.
        self.begun: set[Block] = set()
        #: Functions that emit additional code after an operation.
        self.afterwards: dict[Operation, Callable[[], None]] = {}
        #: Enclosing loops, outermost first: counter, first value, step.
        self.iterations: list[tuple[SSAValue, SSAValue, SSAValue]] = []
        #: The number of the current evaluation. An evaluation is a loop over a tile, or a single
        #: operation that is emitted outside such loops. It computes each lane of a tile at most
        #: once.
        self.evaluation = 0
        #: Chunks that have been computed in the current scope, by coordinates and value.
        self._memo: dict[Coords, dict[Value, Chunk]] = {}
        #: The coordinates used last, with their entry of `_memo`. Successive evaluations nearly
        #: always pass the same object, and hashing coordinates takes longer than looking it up.
        self._latest: tuple[Coords | None, dict[Value, Chunk]] = (None, {})
        #: The operand of each view, and the map from lanes of the view to lanes of the operand.
        self._views: dict[Value, tuple[Value, Lanes]] = {}
        self._nested = 0
        self._cold = False
        self._sink: int | None = None

    # ---- scalars
    def scalar(self, value: Value) -> SSAValue:
        """Return the SSA name or literal of a scalar value."""
        return self.scalars[value]

    def set_scalar(self, value: Value, ssa: SSAValue, divisor: int = 1) -> None:
        self.scalars[value] = ssa
        if divisor > 1 and ssa.startswith("%"):
            self.integers.divisors[ssa] = divisor

    # ---- the arena
    def allocate(self, nbytes: int) -> int:
        """Reserve scratch memory, aligned to 64 bytes; return its offset in the arena."""
        offset = self.arena_bytes
        self.arena_bytes += (nbytes + 63) // 64 * 64
        return offset

    def sink(self) -> int:
        """Return the offset of 64 bytes of scratch memory that masked-off lanes read and write."""
        if self._sink is None:
            self._sink = self.allocate(64)
        return self._sink

    def slot(self, value: Value) -> Slot:
        """Return the slot of a stored value, which is allocated on first use."""
        value = self.plan.owner(value)
        slot = self.slots.get(value)
        if slot is None:
            assert isinstance(value.type, TensorType)
            slot = self.new_slot(
                value.type.shape, value.type.element, widened=self.plan.stored[value]
            )
            self.slots[value] = slot
        return slot

    def new_slot(self, shape: tuple[int, ...], element: Type, *, widened: bool = False) -> Slot:
        slot = Slot(ARENA, 0, shape, element, widened)
        return replace(slot, offset=self.allocate(slot.nbytes))

    def slot_address(self, slot: Slot, at: Coords) -> SSAValue:
        """Return the address of the element of lane 0 of a chunk."""
        counted = self.b.linear.get((slot.shape, at))
        if counted is not None:
            constant = slot.offset + counted[1] * slot.stored_bytes
            return self._element_address(slot, counted[0], constant)
        index = ZERO
        constant = slot.offset
        for axis, stride in zip(at, slot.strides, strict=True):
            index = self.integers.add(index, self.integers.multiply(axis.base, stride))
            constant += axis.lanes[0] * stride * slot.stored_bytes
        return self._element_address(slot, index, constant)

    def _element_address(self, slot: Slot, index: SSAValue, constant: int) -> SSAValue:
        pointer = slot.base
        if constant:
            pointer = self.b.offset(pointer, constant)
        if index == "0":
            return pointer
        wide = self.b.cast("zext", index, "i64") if index.startswith("%") else index
        return self.b.element(slot.stored_type, pointer, wide)

    def read_slot(self, slot: Slot, at: Coords) -> Chunk:
        """Read a chunk of a slot: by a vector load, by a scalar load, or lane by lane."""
        width = at[0].width if at else 1
        offsets = slot.lane_offsets(at)
        address = self.slot_address(slot, at)
        if not any(offsets):
            raw = self.b.load(slot.stored_type, address, slot.stored_bytes)
            return uniform(slot.element, slot.from_stored(self.b, raw), width)
        raw = self._read_lanes(slot, address, offsets)
        return Vector(slot.element, slot.from_stored(self.b, raw))

    def _read_lanes(self, slot: Slot, address: SSAValue, offsets: tuple[int, ...]) -> SSAValue:
        b, stored, width = self.b, slot.stored_type, len(offsets)
        if offsets == tuple(range(width)):
            return b.load(vector_type(stored, width), address, slot.stored_bytes)
        first = min(offsets)
        span = max(offsets) - first + 1
        if span <= width and span & (span - 1) == 0:
            # The lanes repeat or permute a short run of elements, so one vector load and a shuffle
            # suffice.
            start = b.element(stored, address, first)
            run = b.load(vector_type(stored, span), start, slot.stored_bytes)
            return b.shuffle(run, [n - first for n in offsets])
        raw = poison(vector_type(stored, width))
        loaded: dict[int, SSAValue] = {}
        for lane, offset in enumerate(offsets):
            if offset not in loaded:
                p = b.element(stored, address, offset)
                loaded[offset] = b.load(stored, p, slot.stored_bytes)
            raw = b.insert(raw, loaded[offset], lane)
        return raw

    def write_slot(self, slot: Slot, at: Coords, chunk: Chunk) -> None:
        """Write a chunk to a slot, at the coordinates of its lanes."""
        offsets = slot.lane_offsets(at)
        value = slot.to_stored(self.b, self.vector(chunk))
        address = self.slot_address(slot, at)
        if offsets == tuple(range(len(offsets))):
            self.b.store_lanes(value, address)
            return
        for lane, offset in enumerate(offsets):
            p = self.b.element(slot.stored_type, address, offset)
            self.b.store(self.b.extract(value, lane), p, slot.stored_bytes)

    # ---- chunks
    def vector(self, chunk: Chunk) -> SSAValue:
        """Return the chunk as an LLVM vector."""
        if isinstance(chunk, Vector):
            return chunk.ssa
        if chunk.ssa is not None:
            return chunk.ssa
        if chunk.exact is not None:
            ssa = chunk.exact()
        else:
            ssa = self.b.splat(chunk.base, chunk.width)
            if any(chunk.lanes):
                steps = self.b.constant_vector([integer(n, chunk.base.type) for n in chunk.lanes])
                if ssa == "splat (i32 0)" or chunk.base == "0":
                    ssa = steps
                else:
                    ssa = self.b.binary("add", ssa, steps)
        if not self._cold:
            chunk.ssa = ssa
        return ssa

    @contextmanager
    def cold(self) -> Iterator[None]:
        """Emit code in a block that does not always run, so its values are not reused after it."""
        saved, self._cold = self._cold, True
        with self._memo_of({at: dict(chunks) for at, chunks in self._memo.items()}):
            yield
        self._cold = saved

    @contextmanager
    def side(self) -> Iterator[None]:
        """Emit one side of a branch, which may test whole tiles; the tests are only valid there."""
        before = None if self.prober is None else dict(self.prober.whole_tiles)
        yield
        if self.prober is not None and before is not None:
            self.prober.whole_tiles = before

    @contextmanager
    def fresh_memo(self) -> Iterator[None]:
        """Begin a new scope for the body of a loop, in which no chunk has been computed yet."""
        with self._memo_of({}):
            yield

    @contextmanager
    def _memo_of(self, chunks: dict[Coords, dict[Value, Chunk]]) -> Iterator[None]:
        """Use other computed chunks in a context."""
        saved, self._memo, self._latest = self._memo, chunks, (None, {})
        yield
        self._memo, self._latest = saved, (None, {})

    def _computed(self, at: Coords) -> dict[Value, Chunk]:
        """Return the chunks at some coordinates that have been computed in this scope."""
        latest, chunks = self._latest
        if latest is not at:
            chunks = self._memo.setdefault(at, {})
            self._latest = at, chunks
        return chunks

    def evaluate(self, value: Value, at: Coords) -> Chunk:
        """Return the chunk of a tensor at some coordinates, read from its slot or computed."""
        chunks = self._computed(at)
        chunk = chunks.get(value)
        if chunk is None:
            self._nested += 1
            if self._nested > _MOST_NESTED:
                self._evaluate_operands(value, at)
            chunk = self._evaluate(value, at)
            self._nested -= 1
            chunks[value] = chunk
        return chunk

    def _evaluate_operands(self, value: Value, at: Coords) -> None:
        """Evaluate the operands of a value first, starting from those that have no operands.

        Recursive evaluation of a chain of thousands of operations would exceed Python's stack.
        """
        visited: set[Value] = set()
        pending = [value]
        while pending:
            current = pending[-1]
            operands = [] if current in visited else self._operands_at(current, at)
            visited.add(current)
            below = [v for v in operands if v not in visited]
            if below:
                pending += below
                continue
            pending.pop()
            if current is not value and not self.is_at_hand(current, at):
                self._computed(at)[current] = self._evaluate(current, at)

    def _operands_at(self, value: Value, at: Coords) -> list[Value]:
        """Return the operands that are evaluated at the same coordinates to compute a chunk."""
        op = value.defining_op
        if self.plan.is_stored(value) or self.is_at_hand(value, at):
            return []
        if value in self.deltas:
            return [self.deltas[value][0]]
        if op is None or op in self.plan.lane_swaps or not _keeps_coordinates(op):
            return []
        return [v for v in op.operands if v.is_tensor]

    def remember(self, value: Value, at: Coords) -> Chunk:
        """Compute a chunk even if its tile is stored, and reuse it in the rest of this scope."""
        chunk = self._computed(at)[value] = self.compute(value, at)
        return chunk

    def is_at_hand(self, value: Value, at: Coords) -> bool:
        """Return whether the chunk at `at` has been computed in this scope."""
        return value in self._computed(at)

    def operand(self, value: Value, at: Coords) -> Chunk:
        """Return the chunk of an operand; a scalar is the same in every lane."""
        if value.is_tensor:
            return self.evaluate(value, at)
        ssa = self.scalar(value)
        return uniform(value.type, ssa, at[0].width if at else 1, self.integers.divisor(ssa))

    def _evaluate(self, value: Value, at: Coords) -> Chunk:
        if self.plan.is_stored(value):
            return self.read_slot(self.slot(value), at)
        return self.compute(value, at)

    def compute(self, value: Value, at: Coords) -> Chunk:
        """Compute a chunk by the operation that defines its value, even if the tile is stored."""
        if value in self.deltas:
            initial, delta = self.deltas[value]
            return self.add_uniform(self.evaluate(initial, at), delta)
        op = value.defining_op
        assert op is not None, value
        rule = FUSED.get(LANE_SWAP if op in self.plan.lane_swaps else op.name)
        if rule is not None:
            return rule(self, op, value.index, at)
        if elementwise.is_elementwise(op.name):
            return self.lower_elementwise(op, at)[value.index]
        if moved_lanes(value) is not None:
            return self.view(value, at)
        raise UnsupportedError(f"operation {op.name}", op.location)

    def view(self, value: Value, at: Coords) -> Chunk:
        """Compute a chunk of a view, such as a transposition, as a chunk of its operand."""
        source = self._views.get(value)
        if source is None:
            lanes, op = moved_lanes(value), value.defining_op
            assert lanes is not None
            assert op is not None
            source = self._views[value] = (op.operands[lanes.operand], lanes)
        return self.evaluate(source[0], moved(source[1], at))

    def lower_elementwise(self, op: Operation, at: Coords) -> list[Chunk]:
        """Apply an elementwise operation to chunks, or to scalars if all chunks are uniform."""
        width = at[0].width if at else 1
        chunks = [self.operand(v, at) for v in op.operands]
        folded = fold(self.b, op, chunks)
        if folded is not None:
            return [folded]
        elements = [element_type(r.type) for r in op.results]
        uniform_operands = all(isinstance(c, Affine) and c.is_uniform for c in chunks)
        if uniform_operands and elementwise.is_lanewise(op):
            bases = [c.base for c in chunks if isinstance(c, Affine)]
            results = elementwise.lower(self.b, op, 1, bases)
            return [uniform(t, r, width) for t, r in zip(elements, results, strict=True)]
        vectors = [self.vector(c) for c in chunks]
        results = elementwise.lower(self.b, op, width, vectors)
        return [Vector(t, r) for t, r in zip(elements, results, strict=True)]

    def add_uniform(self, chunk: Chunk, delta: SSAValue) -> Chunk:
        """Add a scalar of the element's register type to every lane."""
        if isinstance(chunk, Affine):
            base = self.integers.add(chunk.base, delta)
            exact = None
            if chunk.exact is not None:
                inner = chunk.exact

                def exact() -> SSAValue:
                    return self.b.binary("add", inner(), self.b.splat(delta, chunk.width))

            return Affine(
                chunk.element,
                base,
                chunk.lanes,
                self.known_divisor(base, chunk, delta),
                chunk.guard,
                exact,
            )
        ssa = self.b.binary("add", chunk.ssa, self.b.splat(delta, chunk.width))
        return Vector(chunk.element, ssa)

    def known_divisor(self, base: SSAValue, chunk: Affine, addend: SSAValue) -> int:
        return max(self.integers.divisor(base), min(chunk.divisor, self.integers.divisor(addend)))

    # ---- tiles
    def traversal(self, shape: tuple[int, ...]) -> Traversal:
        """Return the traversal of a tile in row-major order."""
        return traversal(shape, self.options.lanes)

    def memory_traversal(self, pointer: Value) -> Traversal:
        """Return the traversal of a tile of pointers, along the axis that is contiguous in memory.

        Args:
            pointer: The tile of pointers.
        """
        shape = shape_of(pointer.type)
        return traversal(shape, self.options.lanes, memory_order(pointer, self.strides))

    def materialise(self, value: Value) -> None:
        """Fill the slot of a value by computing it chunk by chunk."""
        slot = self.slot(value)
        order = tile_order(value, self.plan.is_stored, self.strides)
        self.fill(slot, lambda at: self.compute(value, at), order)

    def fill(
        self,
        slot: Slot,
        chunk_at: Callable[[Coords], Chunk],
        order: tuple[int, ...] | None = None,
    ) -> None:
        """Fill a slot chunk by chunk.

        Args:
            chunk_at: Emits the chunk at some coordinates.
            order: The axes from slowest to fastest; row-major if None.
        """
        self.evaluation += 1
        if order is not None and can_transpose(slot, order[-1], self.options.lanes):
            self._fill_transposed(slot, chunk_at, order[-1])
            return

        def body(at: Coords) -> None:
            with self.fresh_memo():
                self.write_slot(slot, at, chunk_at(at))

        for_each_chunk(self.b, traversal(slot.shape, self.options.lanes, order), body)

    def _fill_transposed(self, slot: Slot, chunk_at: Callable[[Coords], Chunk], axis: int) -> None:
        def stored_at(at: Coords) -> SSAValue:
            with self.fresh_memo():
                chunk = chunk_at(at)
                return slot.to_stored(self.b, self.vector(chunk))

        lanes = self.options.lanes
        fill_transposed(
            self.integers, slot, axis, lanes, stored_at, lambda at: self.slot_address(slot, at)
        )

    def copy_slot(self, source: Slot, target: Slot) -> None:
        if source == target:
            return
        if source.widened == target.widened and source.element == target.element:
            first = origin(len(source.shape))
            s, t = self.slot_address(source, first), self.slot_address(target, first)
            size = integer(source.nbytes, "i64")
            self.b.intrinsic("llvm.memcpy.p0.p0.i64", "void", t, s, size, FALSE)
            return
        self.fill(target, lambda at: self.read_slot(source, at))

    def plain_slot(self, value: Value) -> Slot:
        """Return a slot that contains a value in the representation of the user's memory."""
        if not value.is_tensor:
            slot = self.new_slot((1,), value.type)
            self.write_slot(slot, origin(1), uniform(value.type, self.scalar(value), 1))
            return slot
        if self.plan.is_stored(value) and not self.slot(value).widened:
            return self.slot(value)
        slot = self.new_slot(shape_of(value.type), element_type(value.type))
        self.fill(slot, lambda at: self.evaluate(value, at))
        return slot

    def add_site(self, site: Site) -> int:
        """Register a place that may call back; return its number."""
        self.sites.append(site)
        return len(self.sites) - 1

    # ---- returning
    def return_values(self, values: Sequence[Value]) -> None:
        """Emit the return of a function; tiles are copied to slots, scalars are returned."""
        tensors = [v for v in values if v.is_tensor]
        for out, value in zip(self.signature.outs, tensors, strict=True):
            assert isinstance(value.type, TensorType)
            self.copy_slot(self.slot(value), Slot(out, 0, value.type.shape, value.type.element))
        answer = zeros(self.signature.return_type)
        for n, value in enumerate(v for v in values if not v.is_tensor):
            answer = self.b.with_field(answer, self.scalar(value), n + 1)
        self.b.ret(answer)

    def emit_failure_return(self) -> None:
        """Emit the return of a function that cannot continue, with status 1."""
        self.b.ret(self.b.with_field(zeros(self.signature.return_type), integer(1, "i32"), 0))

    # ---- operations in program order
    def block(self, block: Block) -> None:
        """Emit the operations of a block in order."""
        for op in block.operations:
            self.operation(op)
            afterwards = self.afterwards.get(op)
            if afterwards is not None:
                afterwards()

    def operation(self, op: Operation) -> None:
        """Emit one operation at its place."""
        tick()
        self.evaluation += 1
        try:
            if op in self.plan.skipped:
                return
            rule = ROOTS.get(FUSION_GROUP if op in self.plan.fusion_groups else op.name)
            if rule is not None:
                rule(self, op)
            elif op.results and all(v.is_tensor for v in op.results):
                for value in op.results:
                    if self.plan.is_stored(value):
                        self.materialise(value)
            elif op.name in FUSED and all(shape_of(v.type) == () for v in op.results):
                for value in op.results:
                    chunk = FUSED[op.name](self, op, value.index, ())
                    ssa = chunk.base if isinstance(chunk, Affine) else chunk.ssa
                    self.set_scalar(value, ssa, getattr(chunk, "divisor", 1))
            elif elementwise.is_elementwise(op.name):
                results = elementwise.lower(self.b, op, 1, [self.scalar(v) for v in op.operands])
                for value, ssa in zip(op.results, results, strict=True):
                    self.set_scalar(value, ssa)
            else:
                raise UnsupportedError(f"operation {op.name}", op.location)
        except UnsupportedError as error:
            if error.location is None:
                error.location = op.location
            raise
