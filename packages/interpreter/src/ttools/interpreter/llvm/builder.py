"""A builder for LLVM IR: functions, declarations, vectors, and the types of our values.

Lines of text with typed values in them are both faster to build than llvmlite's object layer and
easier to read in a failure.  The builder knows LLVM's syntax and how the IR's scalar types are
represented in registers and memory; it must not know any operation of the Triton dialect.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

from ttools.core.errors import UnsupportedError
from ttools.interpreter.llvm.instructions import Argument, Instructions, with_type
from ttools.interpreter.llvm.lines import Line, Preheader, body_text
from ttools.interpreter.llvm.value import (
    TRUE,
    Label,
    SSAValue,
    element_of,
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


#: Bytes of each scalar type that is stored.
SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}


class Builder(Instructions):
    """Builds one LLVM function body at a time into `lines`, plus module-level declarations."""

    def __init__(self) -> None:
        super().__init__()
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
            return super().shuffled(a, b, lanes, count)
        words = super().shuffled(self._words(a), self._words(b), lanes, count)
        held = self.cast("bitcast", self.overloaded("arithmetic.fence", words), "i32")
        return self.compare("icmp slt", held, zeros(held.type))

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
