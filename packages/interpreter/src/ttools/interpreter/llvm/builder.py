"""A builder for LLVM IR: instructions, functions, declarations, and the types of our values.

Lines of text with typed values in them are faster to build than the objects of llvmlite, and easier
to read in a failure. No instruction's text is parsed: each value has its type from the start.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeAlias

from ttools.core.errors import UnsupportedError
from ttools.interpreter.llvm.lines import (
    BlockStart,
    Instruction,
    Line,
    Phi,
    Preheader,
    Return,
    body_text,
)
from ttools.interpreter.llvm.value import (
    NOTHING,
    TRUE,
    Label,
    SSAValue,
    element_of,
    field_of,
    integer,
    lanes_of,
    poison,
    vector_type,
    with_element,
    zeros,
)
from ttools.ir import FloatType, IntegerType, PointerType, Type

# How an element lives in registers.  bf16 is held as a float that is always exactly a bf16: each
# operation rounds, so no operation has to widen.  fp8 is held as its bits.
_REGISTER_FLOATS = {"f64": "double", "f32": "float", "f16": "half", "bf16": "float"}
# In memory 16-bit floats are integers: LLVM legalises masked i16 accesses, not masked half ones.
_MEMORY_FLOATS = {"f64": "double", "f32": "float", "f16": "i16", "bf16": "i16"}


def register_type(type: Type) -> str:
    """The LLVM type of one element of `type` in a register; pointers are `i64` addresses."""
    match type:
        case IntegerType(width):
            return f"i{width}"
        case FloatType(name):
            return _REGISTER_FLOATS.get(name, "i8")
        case PointerType():
            return "i64"
    raise UnsupportedError(f"a value of type {type}", None)


def memory_type(type: Type) -> str:
    """The LLVM type of one element of `type` in memory."""
    match type:
        case IntegerType(1):
            return "i8"
        case FloatType(name):
            return _MEMORY_FLOATS.get(name, "i8")
    return register_type(type)


def byte_size(type: Type) -> int:
    """Bytes one element takes in memory."""
    if isinstance(type, PointerType):
        return 8
    assert isinstance(type, IntegerType | FloatType)
    return max(1, type.width // 8)


def float_literal(value: float, type: str) -> str:
    """An exact literal of LLVM type `half`, `float` or `double`."""
    if type == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if type == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


#: What is passed to a function: a value, or a type with attributes and a value.
Argument: TypeAlias = "SSAValue | tuple[str, SSAValue]"

_new = str.__new__

#: Bytes of each scalar type that is stored.
SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}


class Builder:
    """Builds one LLVM function body at a time, and the declarations of its module.

    Attributes:
        lines: The lines of the function.
        block: The label of the block that the next instruction is in.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.block = Label("entry")
        self._counter = 0
        self._hint = ""
        self.declarations: dict[str, str] = {}
        self.definitions: dict[str, str] = {}
        #: The functions of cold code, by all that is in them but their symbol.
        self.cold: dict[str, str] = {}
        #: Row-major index of a chunk's first element, as an SSA value and a constant to add, by the
        #: tile's shape and the chunk's coordinates, where a loop counts it anyway.
        self.linear: dict[tuple[object, object], tuple[SSAValue, int]] = {}
        #: The function that the builder is in, behind those whose values it may use, by numbers.
        self.bodies: tuple[int, ...] = (0,)
        #: Where the loops begin that the builder is in, the outermost first.
        self.preheaders: list[Preheader] = []
        #: How many lines are in blocks of vector instructions that are as short as can be.
        self.straight_lines = 0
        #: How many counted loops there are.
        self.loops = 0
        self._functions = 0

    # ---- names, lines, blocks
    def fresh(self, type: str, hint: str = "") -> SSAValue:
        """A name that nothing has yet."""
        self._counter += 1
        return SSAValue(f"%{hint or self._hint}{self._counter}", type)

    def emit(self, type: str, *parts: str) -> SSAValue:
        """Appends an instruction that makes a value of a type; returns the value."""
        # Every instruction passes here: no call that can be done without.
        self._counter += 1
        result = _new(SSAValue, f"%{self._hint}{self._counter}")
        result.type = type
        self.lines.append(Instruction(result, parts))
        return result

    def record(self, instruction: Instruction) -> None:
        """Appends an instruction."""
        self.lines.append(instruction)

    def do(self, *parts: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append(Instruction(None, parts))

    def label(self, hint: str) -> Label:
        self._counter += 1
        return Label(f"{hint}{self._counter}")

    def start(self, label: Label) -> None:
        """Starts a basic block; the previous one must have been terminated."""
        self.lines.append(BlockStart(label))
        self.block = label

    # ---- control
    def branch(self, label: Label) -> None:
        self.do("br label %", label)

    def cond_branch(self, cond: SSAValue, then: Label, otherwise: Label) -> None:
        self.do("br i1 ", cond, ", label %", then, ", label %", otherwise)

    @contextmanager
    def only_if(self, condition: SSAValue, then: str, done: str) -> Iterator[None]:
        """What is emitted meanwhile runs where a condition holds; hints name the blocks."""
        yes, no = self.label(then), self.label(done)
        self.cond_branch(condition, yes, no)
        self.start(yes)
        yield
        self.branch(no)
        self.start(no)

    def ret(self, value: SSAValue | None = None) -> None:
        """Returns from the function."""
        parts = ("ret void",) if value is None else (f"ret {value.type} ", value)
        self.record(Return(None, parts))

    def phi(self, *edges: tuple[SSAValue, Label]) -> SSAValue:
        """Joins values by the blocks that control comes from."""
        phi = Phi(self.fresh(edges[0][0].type))
        for value, block in edges:
            phi.add(value, block)
        self.record(phi)
        return phi.value

    def joined(self, *edges: tuple[SSAValue, Label]) -> SSAValue:
        """`phi`, or `NOTHING` where there is none on any edge."""
        return NOTHING if edges[0][0] is NOTHING else self.phi(*edges)

    def open_phi(self, hint: str, value: SSAValue, block: Label) -> Phi:
        """A phi with its first edge; the others are added later."""
        phi = Phi(self.fresh(value.type, hint))
        phi.add(value, block)
        self.lines.append(phi)
        return phi

    # ---- arithmetic
    def binary(self, op: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """`add`, `mul nuw nsw`, `fadd`, … of two values of a type; a number is in all lanes."""
        return self.emit(a.type, f"{op} {a.type} ", a, ", ", _beside(a, b))

    def compare(self, op: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """`icmp slt`, `fcmp olt`, …: i1 lanes."""
        return self.emit(with_element(a.type, "i1"), f"{op} {a.type} ", a, ", ", _beside(a, b))

    def cast(self, op: str, value: SSAValue, element: str) -> SSAValue:
        """`zext`, `fptosi`, `inttoptr`, … of each lane."""
        target = with_element(value.type, element)
        return self.emit(target, f"{op} {value.type} ", value, f" to {target}")

    def bitcast(self, value: SSAValue, type: str) -> SSAValue:
        """The bits of a value as another type."""
        if value.type == type:
            return value
        return self.emit(type, f"bitcast {value.type} ", value, f" to {type}")

    def select(self, mask: SSAValue, then: SSAValue, otherwise: SSAValue | int) -> SSAValue:
        """`then` where a mask is set, `otherwise` elsewhere."""
        head, between = f"select {mask.type} ", f", {then.type} "
        return self.emit(then.type, head, mask, between, then, between, _beside(then, otherwise))

    # ---- memory
    def load(
        self,
        type: str,
        pointer: SSAValue,
        align: int | None = None,
        *,
        op: str = "load",
        ordering: str = "",
    ) -> SSAValue:
        """Loads a value; aligned as its type if no alignment is given, in bytes."""
        tail = f" {ordering}" if ordering else ""
        if align is not None:
            tail += f", align {align}"
        return self.emit(type, f"{op} {type}, ptr ", pointer, tail)

    def store(
        self,
        value: SSAValue,
        pointer: SSAValue,
        align: int | None = None,
        *,
        op: str = "store",
        ordering: str = "",
    ) -> None:
        """Stores a value; aligned as its type if no alignment is given, in bytes."""
        tail = f" {ordering}" if ordering else ""
        if align is not None:
            tail += f", align {align}"
        self.do(f"{op} {value.type} ", value, ", ptr ", pointer, *([tail] if tail else ()))

    def change(self, op: str, pointer: SSAValue, value: SSAValue, ordering: str) -> SSAValue:
        """An `atomicrmw`; returns what was there."""
        head, between = f"atomicrmw {op} ptr ", f", {value.type} "
        return self.emit(value.type, head, pointer, between, value, f" {ordering}")

    def compare_exchange(
        self, pointer: SSAValue, expected: SSAValue, new: SSAValue, ordering: str
    ) -> SSAValue:
        """A `cmpxchg`; returns what was there, and whether that was expected."""
        # One that fails writes nothing, so that it releases nothing.
        failure = {"release": "monotonic", "acq_rel": "acquire"}.get(ordering, ordering)
        between, tail = f", {new.type} ", f" {ordering} {failure}"
        parts = ("cmpxchg ptr ", pointer, between, expected, between, new, tail)
        return self.emit(f"{{ {new.type}, i1 }}", *parts)

    def offset(
        self, pointer: SSAValue, offset: SSAValue | int, *, inbounds: bool = True
    ) -> SSAValue:
        """A pointer so many bytes further on."""
        return self.element("i8", pointer, offset, inbounds=inbounds)

    def element(
        self, type: str, pointer: SSAValue, index: SSAValue | int, *, inbounds: bool = True
    ) -> SSAValue:
        """A pointer to an element behind the one that a pointer leads to; lanes of them."""
        step = index if isinstance(index, SSAValue) else integer(index, "i64")
        head = f"getelementptr {'inbounds ' if inbounds else ''}{type}, ptr "
        return self.emit(with_element(step.type, "ptr"), head, pointer, f", {step.type} ", step)

    # ---- parts of vectors and structures
    def extract(self, vector: SSAValue, lane: int) -> SSAValue:
        """A lane of a vector."""
        type = vector.type
        return self.emit(element_of(type), f"extractelement {type} ", vector, f", i64 {lane}")

    def insert(self, vector: SSAValue, value: SSAValue, lane: int) -> SSAValue:
        """A vector with another value in a lane."""
        head, between = f"insertelement {vector.type} ", f", {value.type} "
        return self.emit(vector.type, head, vector, between, value, f", i64 {lane}")

    def field(self, structure: SSAValue, index: int) -> SSAValue:
        """A field of a structure."""
        type = structure.type
        return self.emit(field_of(type, index), f"extractvalue {type} ", structure, f", {index}")

    def with_field(self, structure: SSAValue, value: SSAValue, index: int) -> SSAValue:
        """A structure with another value in a field."""
        head, between = f"insertvalue {structure.type} ", f", {value.type} "
        return self.emit(structure.type, head, structure, between, value, f", {index}")

    # ---- calls
    def call(self, type: str, function: str, *arguments: Argument) -> SSAValue:
        """Calls a function, or what a pointer leads to; returns its value.

        Args:
            type: of the value; `void` for `NOTHING`.
            function: `@name`, or a pointer.
            arguments: what is passed.
        """
        if type == "void":
            self.do("call void ", function, *_passed(arguments))
            return NOTHING
        return self.emit(type, f"call {type} ", function, *_passed(arguments))

    # ---- module level
    def declare(self, name: str, signature: str) -> str:
        """Declares external function `@name`; `signature` is `ret (args)` text with attributes."""
        ret, args = signature.split(" (", 1)
        self.declarations[name] = f"declare {ret} @{name}({args}"
        return f"@{name}"

    def define(self, name: str, text: str) -> str:
        """Adds a whole function or global definition once; returns `@name`."""
        self.definitions.setdefault(name, text)
        return f"@{name}"

    def define_function(
        self,
        name: str,
        head: str,
        lines: Sequence[Line],
        names: Mapping[str, str] | None = None,
        *,
        inline: bool = True,
    ) -> str:
        """Adds a function once; returns `@name`.

        Args:
            name: of the function.
            head: all that stands before its body.
            lines: the body.
            names: what values and labels are called in it, where that is something else.
            inline: calls of it may be inlined.
        """
        return self.define(name, f"{head} {{\n{body_text(lines, names)}\n}}")

    def shared_name(self, name: str) -> str:
        """What to call a function that several operations may share, by what it does."""
        return name

    def intrinsic(self, name: str, ret: str, *arguments: Argument) -> SSAValue:
        """Calls an intrinsic (or any external function) by full name, declaring it.

        Args:
            name: e.g. `llvm.fma.v16f32`.
            ret: return type, `void` for none (the result is then `NOTHING`).
            arguments: what is passed.
        """
        types = ", ".join([type_ for type_, _ in map(with_type, arguments)])
        self.declarations[name] = f"declare {ret} @{name}({types})"
        return self.call(ret, f"@{name}", *arguments)

    def overloaded(self, name: str, *operands: SSAValue) -> SSAValue:
        """Calls `llvm.<name>`, whose first operand's type is that of the result and in its name."""
        type = operands[0].type
        return self.intrinsic(f"llvm.{name}.{mangled(type)}", type, *operands)

    # ---- vectors
    def splat(self, scalar: SSAValue, width: int) -> SSAValue:
        """A vector of `width` copies of a scalar SSA value or literal."""
        if width == 1:
            return scalar
        vec = vector_type(scalar.type, width)
        if scalar.is_literal:
            return SSAValue(f"splat ({scalar.type} {scalar})", vec)
        one = self.insert(poison(vec), scalar, 0)
        return self.shuffled(one, poison(vec), None, width)

    def any_lane(self, mask: SSAValue) -> SSAValue:
        """An i1: whether any lane of a mask is set."""
        return self._lanes_joined("or", mask)

    def all_lanes(self, mask: SSAValue) -> SSAValue:
        """An i1: whether every lane of a mask is set."""
        return self._lanes_joined("and", mask)

    def _lanes_joined(self, kind: str, mask: SSAValue) -> SSAValue:
        if mask.type == "i1":
            return mask  # one lane is a scalar, which LLVM's reductions refuse
        return self.intrinsic(f"llvm.vector.reduce.{kind}.{mangled(mask.type)}", "i1", mask)

    def constant_vector(self, values: Iterable[SSAValue]) -> SSAValue:
        """A literal of literals; a single one stays as it is."""
        items = list(values)
        if len(items) == 1:
            return items[0]
        listed = ", ".join([f"{v.type} {v}" for v in items])
        return SSAValue(f"<{listed}>", vector_type(items[0].type, len(items)))

    def shuffle(self, vector: SSAValue, lanes: Iterable[int]) -> SSAValue:
        """`vector[lanes]`: a permutation, duplication or sub-vector of one vector."""
        lanes, width = list(lanes), lanes_of(vector.type)
        if lanes == list(range(width)):
            return vector
        if width == 1:
            return self.splat(vector, len(lanes))
        if len(lanes) == 1:
            return self.extract(vector, lanes[0])
        return self.shuffled(vector, poison(vector.type), lanes, len(lanes))

    def gather(
        self,
        pointers: SSAValue,
        stored: str,
        mask: SSAValue | None = None,
        other: SSAValue | None = None,
    ) -> SSAValue:
        """Loads an element of a memory type for each lane.

        Args:
            pointers: more than one of them.
            stored: the type.
            mask: the active lanes; all if None.
            other: what inactive lanes get, zero if None.
        """
        vec = with_element(pointers.type, stored)
        name = f"llvm.masked.gather.{mangled(vec)}.{mangled(pointers.type)}"
        chosen = mask or self.splat(TRUE, lanes_of(vec))
        return self.intrinsic(name, vec, aligned(pointers, stored), chosen, other or zeros(vec))

    def fenced(self, value: SSAValue) -> SSAValue:
        """The lanes of a vector to be stored, which LLVM's code generator does not look behind.

        What it truncates and stores under a mask becomes one instruction there; where the mask is a
        constant with one lane, LLVM 22 then writes that lane untruncated, over those that follow
        (AVX-512, llvm/llvm-project#179489). It makes such masks itself, out of a `select` between
        the old and the new contents, and truncations, out of arithmetic on short integers.
        """
        stored, width = element_of(value.type), lanes_of(value.type)
        if width == 1 or stored in ("float", "double", "i64"):
            return value  # nothing wider is truncated to these
        size = SIZES[stored]
        count = max(width, 4 // size)  # a fence takes floats, and those of f16 are slow
        padded = self.shuffle(value, [min(k, width - 1) for k in range(count)])
        floats = self.bitcast(padded, vector_type("float", count * size // 4))
        held = self.overloaded("arithmetic.fence", floats)
        return self.shuffle(self.bitcast(held, padded.type), range(width))

    def shuffled(
        self, a: SSAValue, b: SSAValue, lanes: Sequence[int] | None, count: int
    ) -> SSAValue:
        """Lanes out of two vectors; `count` times the first if None are given.

        Lanes of masks move as words, which LLVM does not look behind. Of a mask with lanes that are
        known to be off, LLVM 22 takes some for undefined where only others are used (AVX2 and
        AVX-512, two registers of 64-bit lanes), or shifts in what lies beyond a mask of bytes
        (AVX-512), and then accesses them.
        """
        if element_of(a.type) != "i1" or lanes is None:
            return self.shuffle_vector(a, b, lanes, count)
        words = self.shuffle_vector(self._words(a), self._words(b), lanes, count)
        held = self.cast("bitcast", self.overloaded("arithmetic.fence", words), "i32")
        return self.compare("icmp slt", held, zeros(held.type))

    def shuffle_vector(
        self, a: SSAValue, b: SSAValue, lanes: Sequence[int] | None, count: int
    ) -> SSAValue:
        """Emit a `shufflevector`; of masks, `shuffled` avoids what LLVM 22 gets wrong."""
        mask = "zeroinitializer"
        if lanes is not None:
            mask = f"<{', '.join([f'i32 {lane}' for lane in lanes])}>"
        tail = f", <{count} x i32> {mask}"
        result = f"<{count} x {element_of(a.type)}>"
        return self.emit(result, f"shufflevector {a.type} ", a, f", {a.type} ", b, tail)

    def _words(self, mask: SSAValue) -> SSAValue:
        """A mask as 32 bits for each lane, called floats, which are what a fence takes."""
        if mask in (poison(mask.type), zeros(mask.type)):
            return SSAValue(mask, with_element(mask.type, "float"))
        words = self.cast("bitcast", self.cast("sext", mask, "i32"), "float")
        return self.overloaded("arithmetic.fence", words)

    def store_lanes(self, value: SSAValue, address: SSAValue) -> None:
        """Stores all lanes of a vector of a memory type at neighbouring elements."""
        self.store(self.fenced(value), address, SIZES[element_of(value.type)])

    @contextmanager
    def function_body(self, *, given: bool = False) -> Iterator[list[Line]]:
        """Collects lines of a separate function; the outer body is continued afterwards.

        Args:
            given: it may use values of the outer body, which are passed to it.
        """
        saved = self.lines, self.block, self.preheaders, self.bodies
        self._functions += 1
        self.lines, self.block, self.preheaders = [], Label("entry"), []
        self.bodies = (*(self.bodies if given else ()), self._functions)
        try:
            yield self.lines
        finally:
            self.lines, self.block, self.preheaders, self.bodies = saved

    @contextmanager
    def before(self, preheader: Preheader) -> Iterator[None]:
        """Emits instructions, and no blocks, elsewhere."""
        saved = self.lines, self._hint
        # LLVM wants names that are numbers in ascending order.
        self.lines, self._hint = [], "before"
        try:
            yield
            preheader.lines += self.lines
        finally:
            self.lines, self._hint = saved


def aligned(pointers: SSAValue, stored: str) -> Argument:
    """Pointers to elements of a memory type, or vectors of it, as an argument."""
    return f"{pointers.type} align {SIZES[element_of(stored)]}", pointers


@lru_cache(maxsize=256)
def mangled(type: str) -> str:
    """A type's name in an intrinsic's suffix."""
    element = element_of(type)
    name = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(element, element)
    return name if element == type else f"v{lanes_of(type)}{name}"


def with_type(argument: Argument) -> tuple[str, SSAValue]:
    """What is said of an argument, and its value."""
    return (argument.type, argument) if isinstance(argument, SSAValue) else argument


def _beside(a: SSAValue, b: SSAValue | int) -> str:
    """An operand of the type of another one, of which a number is in all lanes."""
    if isinstance(b, str):
        return b
    return f"splat ({element_of(a.type)} {b})" if a.type.startswith("<") else str(b)


def _passed(arguments: Iterable[Argument]) -> list[str]:
    """The arguments of a call."""
    parts: list[str] = []
    between = "("
    for type_, value in map(with_type, arguments):
        parts += (f"{between}{type_} ", value)
        between = ", "
    parts.append(")" if parts else "()")
    return parts
