"""Emits one function: scalars as SSA values, tensors chunk by chunk as the plan says.

`Emitter` owns the state of one function being emitted and the three ways a value is obtained:
`scalar` (an SSA name), `evaluate` (a chunk, computed or read from its slot) and `materialise` (a
loop nest that fills a slot).  What operations mean is in the `lower_*` files, which register
themselves in two tables: `FUSED` (a chunk of a result, on demand) and `ROOTS` (an operation with
an effect or a whole-tile result, at its place in the program).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from ttools.core.errors import UnsupportedError
from ttools.interpreter import elementwise
from ttools.interpreter.emit.chunk import (
    ANY_DIVISOR,
    Affine,
    Axis,
    Chunk,
    Coords,
    Vector,
    origin,
    uniform,
)
from ttools.interpreter.emit.llvm import (
    Builder,
    byte_size,
    memory_type,
    register_type,
    vector_type,
)
from ttools.interpreter.emit.loops import Traversal, for_each_chunk, traversal
from ttools.interpreter.emit.module import EmitOptions, Site
from ttools.interpreter.emit.schedule import Plan
from ttools.interpreter.emit.strides import memory_order, tile_order
from ttools.interpreter.emit.transpose import can_transpose, fill_transposed
from ttools.interpreter.ir import (
    Block,
    FloatType,
    IntegerType,
    Operation,
    TensorType,
    Type,
    Value,
    element_type,
    shape_of,
)

FusedRule = Callable[["Emitter", Operation, int, Coords], Chunk]
RootRule = Callable[["Emitter", Operation], None]

#: How to compute a chunk of result n of an operation.
FUSED: dict[str, FusedRule] = {}
#: How to execute an operation at its place.
ROOTS: dict[str, RootRule] = {}


def fused(*names: str) -> Callable[[FusedRule], FusedRule]:
    """Registers a rule for computing a chunk of an operation's result."""

    def register(rule: FusedRule) -> FusedRule:
        FUSED.update(dict.fromkeys(names, rule))
        return rule

    return register


def root(*names: str) -> Callable[[RootRule], RootRule]:
    """Registers a rule for executing an operation at its place in the program."""

    def register(rule: RootRule) -> RootRule:
        ROOTS.update(dict.fromkeys(names, rule))
        return rule

    return register


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a tile lives: row-major from `base + offset` bytes.

    `base` is the arena or a constant's global.  `widened` tiles hold narrow floats as f32 and
    narrow integers as i32, ready for a dot.
    """

    base: str
    offset: int
    shape: tuple[int, ...]
    element: Type
    widened: bool = False

    @property
    def stored_type(self) -> str:
        if self.widened:
            return widened_type(self.element)
        return memory_type(self.element)

    @property
    def stored_bytes(self) -> int:
        return SIZES[self.stored_type]

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis."""
        return tuple(prod(self.shape[k + 1 :]) for k in range(len(self.shape)))

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.stored_bytes


@dataclass(frozen=True, slots=True)
class Callee:
    """A function already emitted: how to call it and how much arena it needs."""

    symbol: str
    return_type: str
    arena_bytes: int


SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}


def widened_type(element: Type) -> str:
    """The type a dot computes in: f32 for narrow floats, i32 for narrow integers."""
    if isinstance(element, FloatType):
        return "double" if element.name == "f64" else "float"
    return "i64" if isinstance(element, IntegerType) and element.width == 64 else "i32"


def divisor_of_literal(value: int) -> int:
    """The largest power of two that divides a literal."""
    return value & -value if value else ANY_DIVISOR


class Emitter:
    """State of one function being emitted."""

    def __init__(self, b: Builder, plan: Plan, options: EmitOptions, sites: list[Site]) -> None:
        self.b, self.plan, self.options, self.sites = b, plan, options, sites
        self.scalars: dict[Value, str] = {}
        self.slots: dict[Value, Slot] = {}
        self.deltas: dict[Value, tuple[Value, str]] = {}
        self.divisors: dict[str, int] = {}
        self.arena_bytes = 0
        self.labels: dict[Block, str] = {}
        self.phi_lines: dict[Block, int] = {}
        self.edges: dict[Block, list[tuple[str, list[str]]]] = {}
        #: How this function returns; set by whoever emits it.
        self.abandon: Callable[[], None] = lambda: None
        self.callees: dict[str, Callee] = {}
        self.return_values: Callable[[Sequence[Value]], None] = lambda values: None
        self._memo: dict[tuple[int, Coords], Chunk] = {}
        self._cold = False
        self._sink: int | None = None

    # ---- scalars
    def scalar(self, value: Value) -> str:
        """The SSA name or literal of a scalar value."""
        return self.scalars[value]

    def set_scalar(self, value: Value, ssa: str, divisor: int = 1) -> None:
        self.scalars[value] = ssa
        if divisor > 1 and ssa.startswith("%"):
            self.divisors[ssa] = divisor

    def divisor(self, ssa: str) -> int:
        """A power of two known to divide an integer SSA value or literal."""
        if ssa.startswith("%"):
            return self.divisors.get(ssa, 1)
        return divisor_of_literal(int(ssa)) if ssa.lstrip("-").isdigit() else 1

    def iadd(self, type: str, a: str, b: str) -> str:
        """Integer addition with literals folded and divisors tracked."""
        if a == "0":
            return b
        if b == "0":
            return a
        if not a.startswith("%") and not b.startswith("%"):
            return str(wrap_signed(int(a) + int(b), int(type[1:])))
        ssa = self.b.emit(f"add {type} {a}, {b}")
        self.divisors[ssa] = min(self.divisor(a), self.divisor(b))
        return ssa

    def isub(self, type: str, a: str, b: str) -> str:
        if b == "0":
            return a
        if not a.startswith("%") and not b.startswith("%"):
            return str(wrap_signed(int(a) - int(b), int(type[1:])))
        ssa = self.b.emit(f"sub {type} {a}, {b}")
        self.divisors[ssa] = min(self.divisor(a), self.divisor(b))
        return ssa

    def imul(self, type: str, a: str, b: str) -> str:
        """Integer multiplication with literals folded and divisors tracked."""
        if a == "1" or b == "0":
            return b
        if b == "1" or a == "0":
            return a
        if not a.startswith("%") and not b.startswith("%"):
            return str(wrap_signed(int(a) * int(b), int(type[1:])))
        ssa = self.b.emit(f"mul {type} {a}, {b}")
        self.divisors[ssa] = min(ANY_DIVISOR, self.divisor(a) * self.divisor(b))
        return ssa

    def convert_int(self, value: str, source: str, target: str, *, signed: bool = True) -> str:
        """Sign- or zero-extends or truncates a scalar, keeping its divisor."""
        if source == target:
            return value
        bits, wanted = int(source[1:]), int(target[1:])
        if not value.startswith("%") and value.lstrip("-").isdigit():
            number = int(value)
            if not signed and wanted > bits:
                number &= (1 << bits) - 1
            return str(wrap_signed(number, wanted))
        op = "trunc" if wanted < bits else "sext" if signed else "zext"
        ssa = self.b.emit(f"{op} {source} {value} to {target}")
        self.divisors[ssa] = min(self.divisor(value), ANY_DIVISOR)
        return ssa

    # ---- the arena
    def allocate(self, nbytes: int) -> int:
        """Reserves 64-byte aligned scratch memory; returns its offset in the arena."""
        offset = self.arena_bytes
        self.arena_bytes += (nbytes + 63) // 64 * 64
        return offset

    def sink(self) -> int:
        """Offset of 64 bytes that masked-off lanes may read and write."""
        if self._sink is None:
            self._sink = self.allocate(64)
        return self._sink

    def slot(self, value: Value) -> Slot:
        """The slot of a stored value, made on first use."""
        value = self.plan.shares.get(value, value)
        value = self.plan.shares.get(value, value)
        slot = self.slots.get(value)
        if slot is None:
            assert isinstance(value.type, TensorType)
            slot = self.new_slot(
                value.type.shape, value.type.element, widened=self.plan.stored[value]
            )
            self.slots[value] = slot
        return slot

    def new_slot(self, shape: tuple[int, ...], element: Type, *, widened: bool = False) -> Slot:
        slot = Slot("%arena", 0, shape, element, widened)
        return Slot("%arena", self.allocate(slot.nbytes), shape, element, widened)

    def slot_address(self, slot: Slot, at: Coords) -> str:
        """The address of lane 0's element of `at`."""
        index = "0"
        constant = slot.offset
        for axis, stride in zip(at, slot.strides, strict=True):
            index = self.iadd("i32", index, self.imul("i32", axis.base, str(stride)))
            constant += axis.lanes[0] * stride * slot.stored_bytes
        pointer = slot.base
        if constant:
            pointer = self.b.emit(f"getelementptr inbounds i8, ptr {pointer}, i64 {constant}")
        if index == "0":
            return pointer
        wide = self.b.emit(f"zext i32 {index} to i64") if index.startswith("%") else index
        return self.b.emit(f"getelementptr inbounds {slot.stored_type}, ptr {pointer}, i64 {wide}")

    def read_slot(self, slot: Slot, at: Coords) -> Chunk:
        """Reads the elements at `at`: a vector load, a scalar, or a gather within the tile."""
        width = at[0].width if at else 1
        offsets = lane_offsets(slot, at)
        stored, b = slot.stored_type, self.b
        address = self.slot_address(slot, at)
        if not any(offsets):
            raw = b.emit(f"load {stored}, ptr {address}, align {slot.stored_bytes}")
            return uniform(slot.element, self.from_stored(raw, slot, 1), width)
        vec = vector_type(stored, width)
        if offsets == tuple(range(width)):
            raw = b.emit(f"load {vec}, ptr {address}, align {slot.stored_bytes}")
            return Vector(slot.element, width, self.from_stored(raw, slot, width))
        raw = "poison"
        loaded: dict[int, str] = {}
        for lane, offset in enumerate(offsets):
            if offset not in loaded:
                p = b.emit(f"getelementptr inbounds {stored}, ptr {address}, i64 {offset}")
                loaded[offset] = b.emit(f"load {stored}, ptr {p}, align {slot.stored_bytes}")
            raw = b.emit(f"insertelement {vec} {raw}, {stored} {loaded[offset]}, i64 {lane}")
        return Vector(slot.element, width, self.from_stored(raw, slot, width))

    def write_slot(self, slot: Slot, at: Coords, chunk: Chunk) -> None:
        """Writes a chunk to the elements at `at` of a slot."""
        width = chunk.width
        offsets = lane_offsets(slot, at) if at else (0,)
        stored, b = slot.stored_type, self.b
        value = self.to_stored(self.vector(chunk), slot, width)
        address = self.slot_address(slot, at)
        if offsets == tuple(range(width)):
            b.do(
                f"store {vector_type(stored, width)} {value}, ptr {address}, "
                f"align {slot.stored_bytes}"
            )
            return
        for lane, offset in enumerate(offsets):
            p = b.emit(f"getelementptr inbounds {stored}, ptr {address}, i64 {offset}")
            item = b.emit(f"extractelement {vector_type(stored, width)} {value}, i64 {lane}")
            b.do(f"store {stored} {item}, ptr {p}, align {slot.stored_bytes}")

    def from_stored(self, raw: str, slot: Slot, width: int) -> str:
        if not slot.widened:
            return self.from_memory(raw, slot.element, width)
        element = slot.element
        if isinstance(element, FloatType):
            return (
                elementwise.narrow_from_f32(self.b, raw, element, width)
                if (slot.stored_type == "float")
                else raw
            )
        source, target = slot.stored_type, register_type(element)
        if source == target:
            return raw
        return self.b.emit(
            f"trunc {vector_type(source, width)} {raw} to {vector_type(target, width)}"
        )

    def to_stored(self, value: str, slot: Slot, width: int) -> str:
        if not slot.widened:
            return self.to_memory(value, slot.element, width)
        return self.widen(value, slot.element, width)

    def widen(self, value: str, element: Type, width: int) -> str:
        """Converts a register value to the type a dot computes in, exactly."""
        if isinstance(element, FloatType):
            if element.name == "f64":
                return value
            return elementwise.widen_to_f32(self.b, value, element, width)
        source, target = register_type(element), widened_type(element)
        if source == target:
            return value
        op = "zext" if source == "i1" else "sext"
        return self.b.emit(
            f"{op} {vector_type(source, width)} {value} to {vector_type(target, width)}"
        )

    # ---- memory representation
    def from_memory(self, raw: str, element: Type, width: int) -> str:
        """Turns what was loaded into the register representation."""
        b, vec = self.b, vector_type
        if element == IntegerType(1):
            return b.emit(f"trunc {vec('i8', width)} {raw} to {vec('i1', width)}")
        if element == FloatType("f16"):
            return b.bitcast(raw, vec("i16", width), vec("half", width))
        if element == FloatType("bf16"):
            wide = b.emit(f"zext {vec('i16', width)} {raw} to {vec('i32', width)}")
            high = b.emit(f"shl {vec('i32', width)} {wide}, {b.splat('16', 'i32', width)}")
            return b.bitcast(high, vec("i32", width), vec("float", width))
        return raw

    def to_memory(self, value: str, element: Type, width: int) -> str:
        """Turns a register value into what is stored."""
        b, vec = self.b, vector_type
        if element == IntegerType(1):
            return b.emit(f"zext {vec('i1', width)} {value} to {vec('i8', width)}")
        if element == FloatType("f16"):
            return b.emit(f"bitcast {vec('half', width)} {value} to {vec('i16', width)}")
        if element == FloatType("bf16"):
            bits = b.emit(f"bitcast {vec('float', width)} {value} to {vec('i32', width)}")
            high = b.emit(f"lshr {vec('i32', width)} {bits}, {b.splat('16', 'i32', width)}")
            return b.emit(f"trunc {vec('i32', width)} {high} to {vec('i16', width)}")
        return value

    # ---- chunks
    def vector(self, chunk: Chunk) -> str:
        """The chunk as an LLVM vector."""
        if isinstance(chunk, Vector):
            return chunk.ssa
        if chunk.ssa is not None:
            return chunk.ssa
        if chunk.exact is not None:
            ssa = chunk.exact()
        else:
            type = register_type(chunk.element)
            ssa = self.b.splat(chunk.base, type, chunk.width)
            if any(chunk.lanes):
                steps = self.b.constant_vector([str(n) for n in chunk.lanes], type)
                if ssa == "splat (i32 0)" or chunk.base == "0":
                    ssa = steps
                else:
                    ssa = self.b.emit(f"add {vector_type(type, chunk.width)} {ssa}, {steps}")
        if not self._cold:
            chunk.ssa = ssa
        return ssa

    @contextmanager
    def cold(self) -> Iterator[None]:
        """Emission in a side block: what is computed there must not be reused after it."""
        saved, self._cold = self._cold, True
        memo, self._memo = self._memo, dict(self._memo)
        yield
        self._cold, self._memo = saved, memo

    @contextmanager
    def fresh_memo(self) -> Iterator[None]:
        """A new scope of computed chunks, for a loop body."""
        saved, self._memo = self._memo, {}
        yield
        self._memo = saved

    def evaluate(self, value: Value, at: Coords) -> Chunk:
        """The chunk of a tensor value at `at`."""
        key = (id(value), at)
        chunk = self._memo.get(key)
        if chunk is None:
            chunk = self._evaluate(value, at)
            self._memo[key] = chunk
        return chunk

    def operand(self, value: Value, at: Coords) -> Chunk:
        """The chunk of an operand; a scalar is the same in every lane."""
        if value.is_tensor:
            return self.evaluate(value, at)
        ssa = self.scalar(value)
        return uniform(value.type, ssa, at[0].width if at else 1, self.divisor(ssa))

    def _evaluate(self, value: Value, at: Coords) -> Chunk:
        if self.plan.is_stored(value):
            return self.read_slot(self.slot(value), at)
        if value in self.deltas:
            initial, delta = self.deltas[value]
            return self.add_uniform(self.evaluate(initial, at), delta)
        return self.compute(value, at)

    def compute(self, value: Value, at: Coords) -> Chunk:
        """Computes a chunk from the operation that defines it, whether or not it is stored."""
        if value in self.deltas:
            initial, delta = self.deltas[value]
            return self.add_uniform(self.evaluate(initial, at), delta)
        op = value.defining_op
        assert op is not None, value
        rule = FUSED.get(op.name)
        if rule is not None:
            return rule(self, op, value.index, at)
        if elementwise.is_elementwise(op.name):
            return self.lower_elementwise(op, at)[value.index]
        raise UnsupportedError(f"operation {op.name}", op.location)

    def lower_elementwise(self, op: Operation, at: Coords) -> list[Chunk]:
        """Applies an elementwise operation to chunks; once only when all are uniform."""
        width = at[0].width if at else 1
        chunks = [self.operand(v, at) for v in op.operands]
        elements = [element_type(r.type) for r in op.results]
        if all(isinstance(c, Affine) and c.is_uniform for c in chunks):
            bases = [c.base for c in chunks if isinstance(c, Affine)]
            results = elementwise.lower(self.b, op, 1, bases)
            return [uniform(t, r, width) for t, r in zip(elements, results, strict=True)]
        vectors = [self.vector(c) for c in chunks]
        results = elementwise.lower(self.b, op, width, vectors)
        return [Vector(t, width, r) for t, r in zip(elements, results, strict=True)]

    def add_uniform(self, chunk: Chunk, delta: str) -> Chunk:
        """Adds a scalar of the element's register type to every lane."""
        type = register_type(chunk.element)
        if isinstance(chunk, Affine):
            base = self.iadd(type, chunk.base, delta)
            exact = None
            if chunk.exact is not None:
                inner = chunk.exact

                def exact() -> str:
                    vec = vector_type(type, chunk.width)
                    return self.b.emit(
                        f"add {vec} {inner()}, {self.b.splat(delta, type, chunk.width)}"
                    )

            return Affine(
                chunk.element,
                base,
                chunk.lanes,
                self.known_divisor(base, chunk, delta),
                chunk.guard,
                exact,
            )
        vec = vector_type(type, chunk.width)
        ssa = self.b.emit(f"add {vec} {chunk.ssa}, {self.b.splat(delta, type, chunk.width)}")
        return Vector(chunk.element, chunk.width, ssa)

    def known_divisor(self, base: str, chunk: Affine, addend: str) -> int:
        return max(self.divisor(base), min(chunk.divisor, self.divisor(addend)))

    # ---- tiles
    def traversal(self, shape: tuple[int, ...], element: Type | None = None) -> Traversal:
        """How a tile of `shape` is walked: byte-sized tiles in longer chunks."""
        lanes = self.options.lanes
        if element is not None and not isinstance(element, TensorType):
            lanes = lanes * (2 if byte_size(element) == 1 else 1)
        return traversal(shape, lanes)

    def memory_traversal(self, pointer: Value) -> Traversal:
        """How a tile of pointers is walked: along the axis that is contiguous in memory."""
        shape = shape_of(pointer.type)
        return traversal(shape, self.options.lanes, memory_order(pointer))

    def materialise(self, value: Value) -> None:
        """Fills the slot of `value` by computing it chunk by chunk."""
        slot = self.slot(value)
        order = tile_order(value, self.plan.is_stored)
        self.fill(slot, lambda at: self.compute(value, at), order)

    def fill(
        self,
        slot: Slot,
        chunk_at: Callable[[Coords], Chunk],
        order: tuple[int, ...] | None = None,
    ) -> None:
        """Fills a slot from a function of coordinates, walking its axes in `order`."""
        if order is not None and can_transpose(slot, order[-1], self.options.lanes):
            fill_transposed(self, slot, chunk_at, order[-1])
            return

        def body(at: Coords) -> None:
            with self.fresh_memo():
                self.write_slot(slot, at, chunk_at(at))

        for_each_chunk(self.b, traversal(slot.shape, self.options.lanes, order), body)

    def copy_slot(self, source: Slot, target: Slot) -> None:
        if source == target:
            return
        if source.widened == target.widened and source.element == target.element:
            origin = (Axis("0", (0,), ANY_DIVISOR),) * len(source.shape)
            s, t = self.slot_address(source, origin), self.slot_address(target, origin)
            self.b.intrinsic(
                "llvm.memcpy.p0.p0.i64",
                "void",
                [("ptr", t), ("ptr", s), ("i64", str(source.nbytes)), ("i1", "false")],
            )
            return
        self.fill(target, lambda at: self.read_slot(source, at))

    def add_site(self, site: Site) -> int:
        """Registers a place that may call back; returns its number."""
        self.sites.append(site)
        return len(self.sites) - 1

    # ---- program order
    def block(self, block: Block) -> None:
        """Emits the operations of a block in order."""
        for op in block.operations:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """Emits one operation at its place."""
        try:
            rule = ROOTS.get(op.name)
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

    def inline_region(self, op: Operation, arguments: Sequence[str], width: int) -> list[str]:
        """Emits the combine region of a reduction or scan on vectors; returns what it yields."""
        block = op.regions[0].entry
        values = dict(zip(block.arguments, arguments, strict=True))
        for inner in block.operations[:-1]:
            if inner.name == "arith.constant":
                chunk = FUSED[inner.name](self, inner, 0, origin(1, width))
                values[inner.result] = self.vector(chunk)
                continue
            if not elementwise.is_elementwise(inner.name):
                raise UnsupportedError(
                    f"operation {inner.name} in the combine function of {op.name}", inner.location
                )
            operands = [
                values[v]
                if v in values
                else self.b.splat(self.scalar(v), register_type(v.type), width)
                for v in inner.operands
            ]
            for value, ssa in zip(
                inner.results, elementwise.lower(self.b, inner, width, operands), strict=True
            ):
                values[value] = ssa
        return [values[v] for v in block.terminator.operands]


def wrap_signed(value: int, bits: int) -> int:
    """Two's complement wrap-around of a literal."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def lane_offsets(slot: Slot, at: Coords) -> tuple[int, ...]:
    """Element offsets of each lane from lane 0 within a slot."""
    if not at:
        return (0,)
    width = at[0].width
    sums = [
        sum(axis.lanes[lane] * stride for axis, stride in zip(at, slot.strides, strict=True))
        for lane in range(width)
    ]
    return tuple(s - sums[0] for s in sums)
