"""A builder for LLVM IR: instructions, functions, declarations, and the LLVM types of elements.

Lines of text that contain typed values are faster to build than the objects of llvmlite, and easier
to read when something fails. The text of an instruction is never parsed, because each value has its
type.
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
from ttools.ir.type_names import type_in_words

# The types of elements in registers. A bf16 is a float that always has the value of a bf16: the
# result of each operation is rounded, so that operands need not be converted. An fp8 number is an
# i8 with its bits.
_REGISTER_FLOATS = {"f64": "double", "f32": "float", "f16": "half", "bf16": "float"}
# In memory, 16-bit floats are integers, because LLVM supports masked accesses of i16, but not of
# half.
_MEMORY_FLOATS = {"f64": "double", "f32": "float", "f16": "i16", "bf16": "i16"}


def register_type(type: Type) -> str:
    """Return the LLVM type of one element in a register; pointers are `i64` addresses."""
    match type:
        case IntegerType(width):
            return f"i{width}"
        case FloatType(name):
            return _REGISTER_FLOATS.get(name, "i8")
        case PointerType():
            return "i64"
    raise UnsupportedError(f"a value of type {type_in_words(type)}", None)


def memory_type(type: Type) -> str:
    """Return the LLVM type of one element in memory."""
    match type:
        case IntegerType(1):
            return "i8"
        case FloatType(name):
            return _MEMORY_FLOATS.get(name, "i8")
    return register_type(type)


def byte_size(type: Type) -> int:
    """Return the number of bytes of one element in memory."""
    if isinstance(type, PointerType):
        return 8
    assert isinstance(type, IntegerType | FloatType)
    return max(1, type.width // 8)


def float_literal(value: float, type: str) -> str:
    """Return an exact literal of LLVM type `half`, `float` or `double`."""
    if type == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if type == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


#: An argument of a call: a value, or a type with attributes and a value.
Argument: TypeAlias = "SSAValue | tuple[str, SSAValue]"

_new = str.__new__

#: The size in bytes of each scalar type in memory.
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
        #: Symbols of functions with cold code; the keys are the texts of the functions without the
        #: symbol.
        self.cold: dict[str, str] = {}
        #: The row-major index of a chunk's first element, as an SSA value and a constant to add.
        #: The keys are the tile's shape and the chunk's coordinates. Loops that count this index
        #: record it here.
        self.linear: dict[tuple[object, object], tuple[SSAValue, int]] = {}
        #: Numbers of the functions whose values the current function may use; the last number is
        #: its own.
        self.bodies: tuple[int, ...] = (0,)
        #: The preheaders of the enclosing loops, outermost first.
        self.preheaders: list[Preheader] = []
        #: The number of lines of straight-line vector code that LLVM cannot shorten.
        self.straight_lines = 0
        #: The number of counted loops.
        self.loops = 0
        self._functions = 0

    # ---- names, lines, blocks
    def fresh(self, type: str, hint: str = "") -> SSAValue:
        """Return a new name."""
        self._counter += 1
        return SSAValue(f"%{hint or self._hint}{self._counter}", type)

    def emit(self, type: str, *parts: str) -> SSAValue:
        """Append an instruction, and return its result, a new value of the given type."""
        # This method runs for each instruction, so it avoids function calls.
        self._counter += 1
        result = _new(SSAValue, f"%{self._hint}{self._counter}")
        result.type = type
        self.lines.append(Instruction(result, parts))
        return result

    def record(self, instruction: Instruction) -> None:
        """Append an instruction."""
        self.lines.append(instruction)

    def do(self, *parts: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(Instruction(None, parts))

    def label(self, hint: str) -> Label:
        self._counter += 1
        return Label(f"{hint}{self._counter}")

    def start(self, label: Label) -> None:
        """Start a basic block; the previous one must be terminated."""
        self.lines.append(BlockStart(label))
        self.block = label

    # ---- control
    def branch(self, label: Label) -> None:
        self.do("br label %", label)

    def cond_branch(self, cond: SSAValue, then: Label, otherwise: Label) -> None:
        self.do("br i1 ", cond, ", label %", then, ", label %", otherwise)

    @contextmanager
    def only_if(self, condition: SSAValue, then: str, done: str) -> Iterator[None]:
        """Return a context whose code runs only if a condition holds.

        Args:
            then: Prefix of the label of the conditional block.
            done: Prefix of the label of the block after it.
        """
        yes, no = self.label(then), self.label(done)
        self.cond_branch(condition, yes, no)
        self.start(yes)
        yield
        self.branch(no)
        self.start(no)

    def ret(self, value: SSAValue | None = None) -> None:
        """Emit a return from the function."""
        parts = ("ret void",) if value is None else (f"ret {value.type} ", value)
        self.record(Return(None, parts))

    def phi(self, *edges: tuple[SSAValue, Label]) -> SSAValue:
        """Emit a phi, with one value for each block from which control comes."""
        phi = Phi(self.fresh(edges[0][0].type))
        for value, block in edges:
            phi.add(value, block)
        self.record(phi)
        return phi.value

    def joined(self, *edges: tuple[SSAValue, Label]) -> SSAValue:
        """Return a phi of the values, or `NOTHING` if the values are `NOTHING`."""
        return NOTHING if edges[0][0] is NOTHING else self.phi(*edges)

    def open_phi(self, hint: str, value: SSAValue, block: Label) -> Phi:
        """Emit a phi with its first edge, and return it so that other edges can be added."""
        phi = Phi(self.fresh(value.type, hint))
        phi.add(value, block)
        self.lines.append(phi)
        return phi

    # ---- arithmetic
    def binary(self, op: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Emit an arithmetic instruction such as `add`, `mul nuw nsw` or `fadd`.

        Args:
            b: The second operand, of the same type; a number is used for all lanes.
        """
        return self.emit(a.type, f"{op} {a.type} ", a, ", ", _beside(a, b))

    def compare(self, op: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Emit `icmp slt`, `fcmp olt` …, and return i1 lanes."""
        return self.emit(with_element(a.type, "i1"), f"{op} {a.type} ", a, ", ", _beside(a, b))

    def cast(self, op: str, value: SSAValue, element: str) -> SSAValue:
        """Emit `zext`, `fptosi`, `inttoptr` … of each lane."""
        target = with_element(value.type, element)
        return self.emit(target, f"{op} {value.type} ", value, f" to {target}")

    def bitcast(self, value: SSAValue, type: str) -> SSAValue:
        """Reinterpret the bits of a value as a different type."""
        if value.type == type:
            return value
        return self.emit(type, f"bitcast {value.type} ", value, f" to {type}")

    def select(self, mask: SSAValue, then: SSAValue, otherwise: SSAValue | int) -> SSAValue:
        """Emit a `select` of `then` in lanes where the mask is set, and `otherwise` elsewhere."""
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
        """Load a value.

        Args:
            type: The type of the value.
            align: The alignment in bytes; None for the alignment of the type.
            op: The instruction: `load`, `load volatile` or `load atomic`.
            ordering: The ordering of an atomic load.
        """
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
        """Store a value.

        Args:
            align: The alignment in bytes; None for the alignment of the type.
            op: The instruction: `store` or `store atomic`.
            ordering: The ordering of an atomic store.
        """
        tail = f" {ordering}" if ordering else ""
        if align is not None:
            tail += f", align {align}"
        self.do(f"{op} {value.type} ", value, ", ptr ", pointer, *([tail] if tail else ()))

    def change(self, op: str, pointer: SSAValue, value: SSAValue, ordering: str) -> SSAValue:
        """Emit an `atomicrmw`; return the old value."""
        head, between = f"atomicrmw {op} ptr ", f", {value.type} "
        return self.emit(value.type, head, pointer, between, value, f" {ordering}")

    def compare_exchange(
        self, pointer: SSAValue, expected: SSAValue, new: SSAValue, ordering: str
    ) -> SSAValue:
        """Emit a `cmpxchg`.

        Returns:
            A structure of the old value and an i1 that is set if it was the expected one.
        """
        # A failed exchange writes nothing, so it cannot have release semantics.
        failure = {"release": "monotonic", "acq_rel": "acquire"}.get(ordering, ordering)
        between, tail = f", {new.type} ", f" {ordering} {failure}"
        parts = ("cmpxchg ptr ", pointer, between, expected, between, new, tail)
        return self.emit(f"{{ {new.type}, i1 }}", *parts)

    def offset(
        self, pointer: SSAValue, offset: SSAValue | int, *, inbounds: bool = True
    ) -> SSAValue:
        """Return a pointer moved by a number of bytes."""
        return self.element("i8", pointer, offset, inbounds=inbounds)

    def element(
        self, type: str, pointer: SSAValue, index: SSAValue | int, *, inbounds: bool = True
    ) -> SSAValue:
        """Return a pointer moved by a number of elements; one per lane if the index is a vector."""
        step = index if isinstance(index, SSAValue) else integer(index, "i64")
        head = f"getelementptr {'inbounds ' if inbounds else ''}{type}, ptr "
        return self.emit(with_element(step.type, "ptr"), head, pointer, f", {step.type} ", step)

    # ---- parts of vectors and structures
    def extract(self, vector: SSAValue, lane: int) -> SSAValue:
        """Return one lane of a vector."""
        type = vector.type
        return self.emit(element_of(type), f"extractelement {type} ", vector, f", i64 {lane}")

    def insert(self, vector: SSAValue, value: SSAValue, lane: int) -> SSAValue:
        """Return a copy of a vector in which one lane has a different value."""
        head, between = f"insertelement {vector.type} ", f", {value.type} "
        return self.emit(vector.type, head, vector, between, value, f", i64 {lane}")

    def field(self, structure: SSAValue, index: int) -> SSAValue:
        """Return a field of a structure."""
        type = structure.type
        return self.emit(field_of(type, index), f"extractvalue {type} ", structure, f", {index}")

    def with_field(self, structure: SSAValue, value: SSAValue, index: int) -> SSAValue:
        """Return a copy of a structure in which one field has a different value."""
        head, between = f"insertvalue {structure.type} ", f", {value.type} "
        return self.emit(structure.type, head, structure, between, value, f", {index}")

    # ---- calls
    def call(self, type: str, function: str, *arguments: Argument) -> SSAValue:
        """Call a function; return its value, or `NOTHING` for the type `void`.

        Args:
            type: The type of the value.
            function: `@name`, or a pointer to a function.
        """
        if type == "void":
            self.do("call void ", function, *_passed(arguments))
            return NOTHING
        return self.emit(type, f"call {type} ", function, *_passed(arguments))

    # ---- module level
    def declare(self, name: str, signature: str) -> str:
        """Declare an external function, and return `@name`.

        Args:
            signature: The return type, the types of parameters in parentheses, and attributes.
        """
        ret, args = signature.split(" (", 1)
        self.declarations[name] = f"declare {ret} @{name}({args}"
        return f"@{name}"

    def define(self, name: str, text: str) -> str:
        """Add the text of a function or global, unless the name is defined; return `@name`."""
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
        """Add a function, unless the name is defined; return `@name`.

        Args:
            name: The name of the function.
            head: The text before its body.
            lines: The lines of the body.
            names: Other names for the values and labels in the body.
            inline: If False, calls are not inlined.
        """
        return self.define(name, f"{head} {{\n{body_text(lines, names)}\n}}")

    def shared_name(self, name: str) -> str:
        """Return the name of a function that several operations may share."""
        return name

    def intrinsic(self, name: str, ret: str, *arguments: Argument) -> SSAValue:
        """Declare an intrinsic or external function, and call it.

        Args:
            name: The full name, such as `llvm.fma.v16f32`.
            ret: The return type; the result of `void` is `NOTHING`.
        """
        types = ", ".join([type_ for type_, _ in map(with_type, arguments)])
        self.declarations[name] = f"declare {ret} @{name}({types})"
        return self.call(ret, f"@{name}", *arguments)

    def overloaded(self, name: str, *operands: SSAValue) -> SSAValue:
        """Call the intrinsic `llvm.<name>` for the type of the first operand and of the result."""
        type = operands[0].type
        return self.intrinsic(f"llvm.{name}.{mangled(type)}", type, *operands)

    # ---- vectors
    def splat(self, scalar: SSAValue, width: int) -> SSAValue:
        """Return a vector of `width` copies of a scalar."""
        if width == 1:
            return scalar
        vec = vector_type(scalar.type, width)
        if scalar.is_literal:
            return SSAValue(f"splat ({scalar.type} {scalar})", vec)
        one = self.insert(poison(vec), scalar, 0)
        return self.shuffled(one, poison(vec), None, width)

    def any_lane(self, mask: SSAValue) -> SSAValue:
        """Return an i1 that is set if any lane of a mask is set."""
        return self._lanes_joined("or", mask)

    def all_lanes(self, mask: SSAValue) -> SSAValue:
        """Return an i1 that is set if all lanes of a mask are set."""
        return self._lanes_joined("and", mask)

    def _lanes_joined(self, kind: str, mask: SSAValue) -> SSAValue:
        if mask.type == "i1":
            return mask  # LLVM's reductions do not accept scalars
        return self.intrinsic(f"llvm.vector.reduce.{kind}.{mangled(mask.type)}", "i1", mask)

    def constant_vector(self, values: Iterable[SSAValue]) -> SSAValue:
        """Return the literal of a vector of literals; a single literal is returned as a scalar."""
        items = list(values)
        if len(items) == 1:
            return items[0]
        listed = ", ".join([f"{v.type} {v}" for v in items])
        return SSAValue(f"<{listed}>", vector_type(items[0].type, len(items)))

    def shuffle(self, vector: SSAValue, lanes: Iterable[int]) -> SSAValue:
        """Return `vector[lanes]`: a permutation, duplication or part of a vector."""
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
        """Load an element of a memory type for each lane.

        Args:
            pointers: A vector of pointers.
            stored: The type in memory.
            mask: The active lanes; all if None.
            other: The values of inactive lanes; zero if None.
        """
        vec = with_element(pointers.type, stored)
        name = f"llvm.masked.gather.{mangled(vec)}.{mangled(pointers.type)}"
        chosen = mask or self.splat(TRUE, lanes_of(vec))
        return self.intrinsic(name, vec, aligned(pointers, stored), chosen, other or zeros(vec))

    def fenced(self, value: SSAValue) -> SSAValue:
        """Return a vector to be stored, protected from LLVM's optimisation of truncating stores.

        LLVM's code generator merges a truncation and a masked store into one instruction. If the
        mask is a constant with one lane, LLVM 22 writes this lane untruncated and overwrites the
        following ones (AVX-512, llvm/llvm-project#179489). Such masks and truncations need not be
        in our code: LLVM creates a masked store from a `select` between the old and the new
        contents, and truncations from arithmetic on short integers. An `arithmetic.fence` prevents
        the merge.
        """
        stored, width = element_of(value.type), lanes_of(value.type)
        if width == 1 or stored in ("float", "double", "i64"):
            return value  # truncating stores have narrower types
        size = SIZES[stored]
        count = max(width, 4 // size)  # fences only exist for floats, and are slow for f16
        padded = self.shuffle(value, [min(k, width - 1) for k in range(count)])
        floats = self.bitcast(padded, vector_type("float", count * size // 4))
        fenced = self.overloaded("arithmetic.fence", floats)
        return self.shuffle(self.bitcast(fenced, padded.type), range(width))

    def shuffled(
        self, a: SSAValue, b: SSAValue, lanes: Sequence[int] | None, count: int
    ) -> SSAValue:
        """Return lanes of two vectors; `count` copies of the first lane if `lanes` is None.

        Masks are shuffled as 32-bit words between two fences. LLVM 22 miscompiles shuffles of masks
        with lanes that are known to be off: it treats some lanes as undefined (AVX2 and AVX-512,
        two registers of 64-bit lanes), or shifts in bits from outside a mask of bytes (AVX-512).
        The masked access then accesses memory for lanes that should be off.
        """
        if element_of(a.type) != "i1" or lanes is None:
            return self.shuffle_vector(a, b, lanes, count)
        words = self.shuffle_vector(self._words(a), self._words(b), lanes, count)
        bits = self.cast("bitcast", self.overloaded("arithmetic.fence", words), "i32")
        return self.compare("icmp slt", bits, zeros(bits.type))

    def shuffle_vector(
        self, a: SSAValue, b: SSAValue, lanes: Sequence[int] | None, count: int
    ) -> SSAValue:
        """Emit a `shufflevector`; use `shuffled` for masks, which LLVM may miscompile."""
        mask = "zeroinitializer"
        if lanes is not None:
            mask = f"<{', '.join([f'i32 {lane}' for lane in lanes])}>"
        tail = f", <{count} x i32> {mask}"
        result = f"<{count} x {element_of(a.type)}>"
        return self.emit(result, f"shufflevector {a.type} ", a, f", {a.type} ", b, tail)

    def _words(self, mask: SSAValue) -> SSAValue:
        """Return a mask as floats with all bits set or all clear, hidden from LLVM by a fence."""
        if mask in (poison(mask.type), zeros(mask.type)):
            return SSAValue(mask, with_element(mask.type, "float"))
        words = self.cast("bitcast", self.cast("sext", mask, "i32"), "float")
        return self.overloaded("arithmetic.fence", words)

    def store_lanes(self, value: SSAValue, address: SSAValue) -> None:
        """Store all lanes of a vector of a memory type at neighbouring elements."""
        self.store(self.fenced(value), address, SIZES[element_of(value.type)])

    @contextmanager
    def function_body(self, *, given: bool = False) -> Iterator[list[Line]]:
        """Return a context that collects the lines of a separate function.

        Args:
            given: If True, the function may use values of the current one, which the caller passes
                to it as arguments.
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
        """Emit instructions, but no blocks, in the preheader of a loop."""
        saved = self.lines, self._hint
        # LLVM requires names that are numbers to be in ascending order. These instructions precede
        # instructions that already have lower numbers, so their names get a prefix.
        self.lines, self._hint = [], "before"
        try:
            yield
            preheader.lines += self.lines
        finally:
            self.lines, self._hint = saved


def aligned(pointers: SSAValue, stored: str) -> Argument:
    """Return pointers to elements of a memory type as an argument with its alignment."""
    return f"{pointers.type} align {SIZES[element_of(stored)]}", pointers


@lru_cache(maxsize=256)
def mangled(type: str) -> str:
    """Return the text for a type in the name of an intrinsic: `v16f32` for `<16 x float>`."""
    element = element_of(type)
    name = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(element, element)
    return name if element == type else f"v{lanes_of(type)}{name}"


def with_type(argument: Argument) -> tuple[str, SSAValue]:
    """Return an argument as its type, with attributes, and its value."""
    return (argument.type, argument) if isinstance(argument, SSAValue) else argument


def _beside(a: SSAValue, b: SSAValue | int) -> str:
    """Return the text of a second operand; a number is splatted over the lanes of the first."""
    if isinstance(b, str):
        return b
    return f"splat ({element_of(a.type)} {b})" if a.type.startswith("<") else str(b)


def _passed(arguments: Iterable[Argument]) -> list[str]:
    """Return the arguments of a call in parentheses, as parts of an instruction."""
    parts: list[str] = []
    between = "("
    for type_, value in map(with_type, arguments):
        parts += (f"{between}{type_} ", value)
        between = ", "
    parts.append(")" if parts else "()")
    return parts
