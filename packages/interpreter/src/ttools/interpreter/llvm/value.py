"""SSA values, literals and labels, as strings with an LLVM type.

They are strings, so that they can be dictionary keys, compared with literals, and joined into text
quickly. The result of a string operation on them is a plain string. Instructions must contain the
values themselves, not text that contains them (see `lines.py`).
"""

from __future__ import annotations

from functools import lru_cache


class SSAValue(str):
    """The name of an SSA value, or a literal, with its LLVM type."""

    __slots__ = ("type",)
    type: str

    def __new__(cls, text: str, type: str) -> SSAValue:
        value = str.__new__(cls, text)
        value.type = type
        return value

    @property
    def is_literal(self) -> bool:
        """Return whether the value is a literal."""
        return not self.startswith("%")


class Label(str):
    """The name of a basic block."""

    __slots__ = ()


#: Parameters of every function of a kernel, and the name of its thread's probe.
LAUNCH, ARENA, PROBE = (SSAValue(f"%{name}", "ptr") for name in ("launch", "arena", "probe"))
#: Represents the absence of a value, such as the result of a `void` function.
NOTHING = SSAValue("", "void")
PROGRAM = SSAValue("%program", "i64")
PROGRAM_IDS = tuple(SSAValue(f"%p{axis}", "i32") for axis in "xyz")


TRUE, FALSE = SSAValue("true", "i1"), SSAValue("false", "i1")


@lru_cache(maxsize=4096)
def integer(value: int, type: str) -> SSAValue:
    """Return an integer literal."""
    return SSAValue(str(value), type)


def poison(type: str) -> SSAValue:
    """Return the poison literal."""
    return SSAValue("poison", type)


def zeros(type: str) -> SSAValue:
    """Return the literal that is zero in all lanes or fields."""
    return SSAValue("zeroinitializer", type)


def vector_type(scalar: str, width: int) -> str:
    """Return `<width x scalar>`, or the scalar type if the width is 1."""
    return scalar if width == 1 else f"<{width} x {scalar}>"


@lru_cache(maxsize=1024)
def lanes_of(type: str) -> int:
    """Return the number of lanes of a type; 1 for a scalar."""
    return int(type[1 : type.index(" ")]) if type.startswith("<") else 1


@lru_cache(maxsize=1024)
def element_of(type: str) -> str:
    """Return the type of a lane; for a scalar type, the type itself."""
    return type.rpartition(" ")[2][:-1] if type.startswith("<") else type


@lru_cache(maxsize=1024)
def with_element(type: str, element: str) -> str:
    """Return the type with the same number of lanes but the given element type."""
    return f"{type[: type.index(' x ')]} x {element}>" if type.startswith("<") else element


def field_of(type: str, index: int) -> str:
    """Return the type of a structure's field."""
    return type[2:-2].split(", ")[index]
