"""What a function under construction consists of: instructions, labels, and places to fill later.

An instruction is the value it makes and its text in parts; values and labels are parts of their
own. So which values it uses, and of which types, is known without reading text; it can be written
with other names; and an edge can be added to a phi as long as nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ttools.interpreter.llvm.value import Label, SSAValue


class Instruction:
    """An instruction.

    Attributes:
        result: the value it makes, if any.
        parts: its text behind the result's name: values, labels, and what stands between them.
        mark: metadata behind it, as text.
    """

    __slots__ = ("mark", "parts", "result")

    def __init__(self, result: SSAValue | None, parts: tuple[str, ...]) -> None:
        self.result = result
        self.parts = parts
        self.mark = ""

    @property
    def text(self) -> str:
        """The line of a function's text."""
        if self.result is None:
            return f"  {''.join(self.parts)}{self.mark}"
        return f"  {self.result} = {''.join(self.parts)}{self.mark}"

    def renamed(self, names: Mapping[str, str]) -> str:
        """The line with other names for all values and labels that have any."""
        parts = [part if type(part) is str else names.get(part, part) for part in self.parts]
        head = "" if self.result is None else f"{names[self.result]} = "
        return f"  {head}{''.join(parts)}{self.mark}"


class Phi(Instruction):
    """A phi, whose edges are added as they become known."""

    __slots__ = ()

    def __init__(self, result: SSAValue) -> None:
        super().__init__(result, (f"phi {result.type} ",))

    @property
    def value(self) -> SSAValue:
        """The value that it makes."""
        assert self.result is not None
        return self.result

    def add(self, value: SSAValue, block: Label) -> None:
        """Adds the value that the phi has when control comes from a block."""
        self.parts += ("[" if len(self.parts) == 1 else ", [", value, ", %", block, "]")


class Return(Instruction):
    """What ends the function that it is in."""

    __slots__ = ()


class BlockStart:
    """Where a basic block begins."""

    __slots__ = ("label",)

    def __init__(self, label: Label) -> None:
        self.label = label

    @property
    def text(self) -> str:
        """The line of a function's text."""
        return f"{self.label}:"

    def renamed(self, names: Mapping[str, str]) -> str:
        """The line with another name."""
        return f"{names[self.label]}:"


class Preheader:
    """The place just before a loop, where something may be emitted while the loop's body is.

    Attributes:
        lines: what has been put there.
        known: the same, by what asked for it.
    """

    __slots__ = ("known", "lines")

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.known: dict[object, Any] = {}

    @property
    def text(self) -> str:
        """The lines of a function's text; an empty one if there are none."""
        return body_text(self.lines)

    def renamed(self, names: Mapping[str, str]) -> str:
        """The lines with other names."""
        return body_text(self.lines, names)


Line: TypeAlias = "Instruction | BlockStart | Preheader"


def body_text(lines: Iterable[Line], names: Mapping[str, str] | None = None) -> str:
    """The text of a function's body, in which values and labels may have other names."""
    if names is None:
        join = "".join
        return "\n".join(
            [
                line.text
                if line.__class__ is not Instruction
                else f"  {join(line.parts)}{line.mark}"
                if line.result is None
                else f"  {line.result} = {join(line.parts)}{line.mark}"
                for line in lines
            ]
        )
    return "\n".join([line.renamed(names) for line in lines])


def flattened(lines: Sequence[Line]) -> Iterator[Instruction | BlockStart]:
    """Lines in the order in which they are written."""
    for line in lines:
        if isinstance(line, Preheader):
            yield from flattened(line.lines)
        else:
            yield line
