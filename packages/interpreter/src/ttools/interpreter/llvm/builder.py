"""A text builder for LLVM IR: fresh names, blocks, constants, and the types of our values.

Text is both faster to build than llvmlite's object layer and easier to read in a failure.  The
builder knows LLVM's syntax and how the IR's scalar types are represented in registers and memory;
it must not know any operation of the Triton dialect.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ttools.core.errors import UnsupportedError
from ttools.interpreter.ir import FloatType, IntegerType, PointerType, Type

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


def vector_type(scalar: str, width: int) -> str:
    """`<width x scalar>`; a width of 1 is the scalar itself."""
    return scalar if width == 1 else f"<{width} x {scalar}>"


def float_literal(value: float, type: str) -> str:
    """An exact literal of LLVM type `half`, `float` or `double`."""
    if type == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if type == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


#: Bytes of each scalar type that is stored.
SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}


class Preheader:
    """The place just before a loop, where something may be emitted while the loop's body is.

    Attributes:
        lines: of the function that the loop is in.
        known: what has been put there, by what asked for it.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.known: dict[object, str | None] = {}
        self._index = len(lines)
        lines.append("")

    def add(self, lines: Iterable[str]) -> None:
        """Puts lines behind those that are there."""
        old = self.lines[self._index]
        self.lines[self._index] = "\n".join([*([old] if old else []), *lines])


class Builder:
    """Builds one LLVM function body at a time into `lines`, plus module-level declarations."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.definitions: dict[str, str] = {}
        #: The functions of what is seldom run, by all that is in them but their symbol.
        self.seldom: dict[str, str] = {}
        #: Row-major index of a chunk's first element, as an SSA value and a constant to add, by the
        #: tile's shape and the chunk's coordinates, where a loop counts it anyway.
        self.linear: dict[tuple[object, object], tuple[str, int]] = {}
        #: The function that the builder is in, behind those whose values it may use, by numbers.
        self.bodies: tuple[int, ...] = (0,)
        #: Where the loops begin that the builder is in, the outermost first.
        self.preheaders: list[Preheader] = []
        #: The instruction that makes each value, without the value's name.
        self.made: dict[str, str] = {}
        #: The type of each value of which `made` does not tell it.
        self.types: dict[str, str] = {
            **dict.fromkeys(("%launch", "%arena", "%probe"), "ptr"),
            **dict.fromkeys(("%px", "%py", "%pz"), "i32"),
            "%program": "i64",
        }
        #: How many lines are in blocks of vector instructions that are as short as can be.
        self.straight_lines = 0
        #: How many counted loops there are.
        self.loops = 0
        self._counter = 0
        self._functions = 0
        self._hint = ""
        self.block = "entry"

    # ---- names, lines, blocks
    def fresh(self, hint: str = "") -> str:
        self._counter += 1
        return f"%{hint or self._hint}{self._counter}"

    def emit(self, text: str) -> str:
        """Appends `%n = text` and returns `%n`."""
        name = self.fresh()
        self.made[name] = text
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, hint: str) -> str:
        self._counter += 1
        return f"{hint}{self._counter}"

    def start(self, label: str) -> None:
        """Starts basic block `label`; the previous one must have been terminated."""
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, label: str) -> None:
        self.do(f"br label %{label}")

    def cond_branch(self, cond: str, then: str, otherwise: str) -> None:
        self.do(f"br i1 {cond}, label %{then}, label %{otherwise}")

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

    def shared_name(self, name: str) -> str:
        """What to call a function that several operations may share, by what it does."""
        return name

    def intrinsic(self, name: str, ret: str, args: Iterable[tuple[str, str]]) -> str:
        """Calls an intrinsic (or any external function) by full name, declaring it.

        Args:
            name: e.g. `llvm.fma.v16f32`.
            ret: return type, `void` for none (the result is then "").
            args: pairs (type, value).
        """
        args = list(args)
        self.declarations[name] = f"declare {ret} @{name}({', '.join(t for t, _ in args)})"
        call = f"call {ret} @{name}({', '.join(f'{t} {v}' for t, v in args)})"
        if ret == "void":
            self.do(call)
            return ""
        return self.emit(call)

    # ---- vectors
    def splat(self, scalar: str, type: str, width: int) -> str:
        """A vector of `width` copies of a scalar SSA value or literal."""
        if width == 1:
            return scalar
        if not scalar.startswith("%"):
            return f"splat ({type} {scalar})"
        vec = vector_type(type, width)
        one = self.emit(f"insertelement {vec} poison, {type} {scalar}, i64 0")
        return self.emit(
            f"shufflevector {vec} {one}, {vec} poison, <{width} x i32> zeroinitializer"
        )

    def any_lane(self, mask: str, width: int) -> str:
        """An i1: whether any lane of a mask is set."""
        return self._lanes_joined("or", mask, width)

    def all_lanes(self, mask: str, width: int) -> str:
        """An i1: whether every lane of a mask is set."""
        return self._lanes_joined("and", mask, width)

    def _lanes_joined(self, kind: str, mask: str, width: int) -> str:
        if width == 1:
            return mask  # one lane is a scalar, which LLVM's reductions refuse
        name = f"llvm.vector.reduce.{kind}.v{width}i1"
        return self.intrinsic(name, "i1", [(vector_type("i1", width), mask)])

    def constant_vector(self, values: Iterable[str], type: str) -> str:
        items = list(values)
        if len(items) == 1:
            return items[0]
        return f"<{', '.join(f'{type} {v}' for v in items)}>"

    def shuffle(self, vector: str, type: str, width: int, lanes: Iterable[int]) -> str:
        """`vector[lanes]`: a permutation, duplication or sub-vector of one vector."""
        lanes = list(lanes)
        if lanes == list(range(width)):
            return vector
        if width == 1:
            return self.splat(vector, type, len(lanes))
        vec = vector_type(type, width)
        if len(lanes) == 1:
            return self.emit(f"extractelement {vec} {vector}, i64 {lanes[0]}")
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.emit(
            f"shufflevector {vec} {vector}, {vec} poison, <{len(lanes)} x i32> <{mask}>"
        )

    def fenced(self, value: str, stored: str, width: int) -> str:
        """The lanes of a vector to be stored, which LLVM's code generator does not look behind.

        What it truncates and stores under a mask becomes one instruction there; where the mask is a
        constant with one lane, LLVM 22 then writes that lane untruncated, over those that follow
        (AVX-512, llvm/llvm-project#179489). It makes such masks itself, out of a `select` between
        the old and the new contents, and truncations, out of arithmetic on short integers.
        """
        if width == 1 or stored in ("float", "double", "i64"):
            return value  # nothing wider is truncated to these
        size = SIZES[stored]
        count = max(width, 4 // size)  # a fence takes floats, and those of f16 are slow
        words = count * size // 4
        lanes, fence = vector_type(stored, count), vector_type("float", words)
        padded = self.shuffle(value, stored, width, [min(k, width - 1) for k in range(count)])
        name = "llvm.arithmetic.fence." + (f"v{words}f32" if words > 1 else "f32")
        held = self.intrinsic(name, fence, [(fence, self.bitcast(padded, lanes, fence))])
        return self.shuffle(self.bitcast(held, fence, lanes), stored, count, range(width))

    def fenced_mask(self, mask: str, width: int) -> str:
        """Lanes of a mask taken from a longer one, which LLVM does not look behind.

        Of a mask with lanes that are known to be off, LLVM 22 takes some for undefined where only
        others are used, and then accesses them (AVX2 and AVX-512, two registers of 64-bit lanes).
        """
        bools, words = vector_type("i1", width), vector_type("i32", width)
        fence = vector_type("float", width)
        signs = self.bitcast(self.emit(f"sext {bools} {mask} to {words}"), words, fence)
        held = self.intrinsic(f"llvm.arithmetic.fence.v{width}f32", fence, [(fence, signs)])
        return self.emit(f"icmp slt {words} {self.bitcast(held, fence, words)}, zeroinitializer")

    def store_lanes(self, value: str, stored: str, width: int, address: str) -> None:
        """Stores all lanes of a vector of a memory type at neighbouring elements."""
        type = vector_type(stored, width)
        value = self.fenced(value, stored, width)
        self.do(f"store {type} {value}, ptr {address}, align {SIZES[stored]}")

    def bitcast(self, value: str, source: str, target: str) -> str:
        return value if source == target else self.emit(f"bitcast {source} {value} to {target}")

    @contextmanager
    def function_body(self, *, given: bool = False) -> Iterator[list[str]]:
        """Collects lines of a separate function; the outer body is continued afterwards.

        Args:
            given: it may use values of the outer body, which are passed to it.
        """
        saved = self.lines, self.block, self.preheaders, self.bodies
        self._functions += 1
        self.lines, self.block, self.preheaders = [], "entry", []
        self.bodies = (*(self.bodies if given else ()), self._functions)
        try:
            yield self.lines
        finally:
            self.lines, self.block, self.preheaders, self.bodies = saved

    @contextmanager
    def before(self, preheader: Preheader) -> Iterator[None]:
        """Emits instructions, and no blocks, at another place."""
        saved = self.lines, self._hint
        # LLVM wants names that are numbers in ascending order.
        self.lines, self._hint = [], "before"
        try:
            yield
            preheader.add(self.lines)
        finally:
            self.lines, self._hint = saved


def mangled(type: str) -> str:
    """A scalar type's name in an intrinsic's suffix."""
    return {"half": "f16", "float": "f32", "double": "f64"}.get(type, type)
