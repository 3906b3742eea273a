"""Lines of a function under construction: instructions, labels, and places to fill later.

An instruction consists of its result and a tuple of parts of its text, in which values and labels
are separate parts. For example, `%5 = mul i32 %3, 4` has the result `%5` and the parts `mul i32 `,
`%3` and `, 4`. Therefore the values that it uses are known without parsing text, values can be
renamed, and edges can be added to a phi until the function is converted to text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ttools.interpreter.llvm.value import Label, SSAValue


class Instruction:
    """An instruction.

    Attributes:
        result: The value that it computes, if any.
        parts: The text after the result's name: values, labels, and the text between them.
        mark: The metadata at the end of the line, as text.
    """

    __slots__ = ("mark", "parts", "result")

    def __init__(self, result: SSAValue | None, parts: tuple[str, ...]) -> None:
        self.result = result
        self.parts = parts
        self.mark = ""

    @property
    def text(self) -> str:
        """Return the line of text."""
        if self.result is None:
            return f"  {''.join(self.parts)}{self.mark}"
        return f"  {self.result} = {''.join(self.parts)}{self.mark}"

    def renamed(self, names: Mapping[str, str]) -> str:
        """Return the line with its values and labels renamed according to `names`."""
        parts = [part if type(part) is str else names.get(part, part) for part in self.parts]
        head = "" if self.result is None else f"{names[self.result]} = "
        return f"  {head}{''.join(parts)}{self.mark}"


class Phi(Instruction):
    """A phi, to which edges are added when they become known."""

    __slots__ = ()

    def __init__(self, result: SSAValue) -> None:
        super().__init__(result, (f"phi {result.type} ",))

    @property
    def value(self) -> SSAValue:
        """Return the result of the phi."""
        assert self.result is not None
        return self.result

    def add(self, value: SSAValue, block: Label) -> None:
        """Add the value that the phi has if control comes from a block."""
        self.parts += ("[" if len(self.parts) == 1 else ", [", value, ", %", block, "]")


class Return(Instruction):
    """The return from a function."""

    __slots__ = ()


class BlockStart:
    """The beginning of a basic block."""

    __slots__ = ("label",)

    def __init__(self, label: Label) -> None:
        self.label = label

    @property
    def text(self) -> str:
        """Return the line of text."""
        return f"{self.label}:"

    def renamed(self, names: Mapping[str, str]) -> str:
        """Return the line with another name."""
        return f"{names[self.label]}:"


class Preheader:
    """The place before a loop where instructions may be added while the loop's body is emitted.

    Attributes:
        lines: The lines that were added.
        known: Values that were computed in the preheader and may be reused; the key describes the
            value.
    """

    __slots__ = ("known", "lines")

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.known: dict[object, Any] = {}

    @property
    def text(self) -> str:
        """Return the text of the lines; an empty line if there are none."""
        return body_text(self.lines)

    def renamed(self, names: Mapping[str, str]) -> str:
        """Return the lines with other names."""
        return body_text(self.lines, names)


Line: TypeAlias = "Instruction | BlockStart | Preheader"


def body_text(lines: Iterable[Line], names: Mapping[str, str] | None = None) -> str:
    """Return the text of a function's body, optionally with values and labels renamed."""
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
    """Yield lines in the order in which they are written."""
    for line in lines:
        if isinstance(line, Preheader):
            yield from flattened(line.lines)
        else:
            yield line
