"""SSA values, literals and labels as LLVM's text names them, values with their type.

Both are strings, so that they are keys, can be compared with a literal, and are joined into text as
fast as any. What is made of one by an operation of strings is plain text: an instruction takes
values as they are, see `lines`.
"""

from __future__ import annotations

from functools import lru_cache


class SSAValue(str):
    """The name of an SSA value, or a literal.

    Attributes:
        type: its LLVM type.
    """

    __slots__ = ("type",)
    type: str

    def __new__(cls, text: str, type: str) -> SSAValue:
        value = str.__new__(cls, text)
        value.type = type
        return value

    @property
    def is_literal(self) -> bool:
        """Whether the value is known here."""
        return not self.startswith("%")


class Label(str):
    """The name of a basic block."""

    __slots__ = ()


#: What every function of a kernel is given, and the name of its thread's probe.
LAUNCH, ARENA, PROBE = (SSAValue(f"%{name}", "ptr") for name in ("launch", "arena", "probe"))
#: Nothing, where a value might be.
NOTHING = SSAValue("", "void")
PROGRAM = SSAValue("%program", "i64")
PROGRAM_IDS = tuple(SSAValue(f"%p{axis}", "i32") for axis in "xyz")


TRUE, FALSE = SSAValue("true", "i1"), SSAValue("false", "i1")


@lru_cache(maxsize=4096)
def integer(value: int, type: str) -> SSAValue:
    """An integer literal."""
    return SSAValue(str(value), type)


def poison(type: str) -> SSAValue:
    """A value of which nothing is used."""
    return SSAValue("poison", type)


def zeros(type: str) -> SSAValue:
    """Zero, or all of them."""
    return SSAValue("zeroinitializer", type)


def vector_type(scalar: str, width: int) -> str:
    """`<width x scalar>`; a width of 1 is the scalar itself."""
    return scalar if width == 1 else f"<{width} x {scalar}>"


@lru_cache(maxsize=1024)
def lanes_of(type: str) -> int:
    """How many lanes a type has; 1 for a scalar."""
    return int(type[1 : type.index(" ")]) if type.startswith("<") else 1


@lru_cache(maxsize=1024)
def element_of(type: str) -> str:
    """The type of a lane of a vector; another type is its own."""
    return type.rpartition(" ")[2][:-1] if type.startswith("<") else type


@lru_cache(maxsize=1024)
def with_element(type: str, element: str) -> str:
    """A vector type of as many lanes of another type; that type itself for a scalar."""
    return f"{type[: type.index(' x ')]} x {element}>" if type.startswith("<") else element


def field_of(type: str, index: int) -> str:
    """The type of a field of a structure."""
    return type[2:-2].split(", ")[index]
