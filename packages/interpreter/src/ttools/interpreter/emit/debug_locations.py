"""Debug information that assigns each instruction to a line of the user's source.

The line numbers in LLVM's debug information are not those of the source. They are indices, counted
from 1, into the table `EmittedModule.locations`, which contains files, lines and callers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ttools.core.location import SourceLocation
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.lines import Instruction, Line, flattened
from ttools.interpreter.llvm.value import SSAValue
from ttools.interpreter.tiles.chunk import Affine, Chunk, Coords
from ttools.ir import Operation, Value

#: Metadata that every module has. The metadata of functions and locations follows it.
_UNIT = """
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!1, !2}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !3, producer: "ttools", isOptimized: true, \
runtimeVersion: 0, emissionKind: LineTablesOnly)
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = !{i32 7, !"Dwarf Version", i32 4}
!3 = !DIFile(filename: "kernel", directory: "")
!4 = !DISubroutineType(types: !5)
!5 = !{}
"""
_FIRST = 6


class LocatedBuilder(Builder):
    """Builds functions whose instructions have locations.

    Attributes:
        locations: The table of locations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.locations: list[SourceLocation] = []
        self._numbers: dict[SourceLocation, int] = {}
        self._metadata: list[str] = []
        #: The `!dbg` attachments of instructions, by function and line.
        self._marks: dict[tuple[int, int], str] = {}
        self._function = self._line = 0

    def begin_function(self, symbol: str) -> str:
        """Begin a function, at first without a location.

        Returns:
            The `!dbg` attachment of the function's definition.
        """
        self._function = self._add(
            f'distinct !DISubprogram(name: "{symbol}", file: !3, line: 1, type: !4, unit: !0, '
            "spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
        self._line = 0
        return f" !dbg !{self._function}"

    @contextmanager
    def at(self, location: SourceLocation | None) -> Iterator[None]:
        """Set the location of instructions that are emitted in the context.

        Args:
            location: The location; None keeps the current one.
        """
        before = self._line
        if location is not None:
            number = self._numbers.get(location)
            if number is None:
                self.locations.append(location)
                number = self._numbers[location] = len(self.locations)
            self._line = number
        yield
        self._line = before

    def shared_name(self, name: str) -> str:
        """Return a name that is different for each location."""
        return f"{name}.at{self._line}"

    def define_function(
        self,
        name: str,
        head: str,
        lines: Sequence[Line],
        names: Mapping[str, str] | None = None,
        *,
        inline: bool = True,
    ) -> str:
        """Define a function; if it is not inlined, all its code belongs to the current location."""
        marked = [line for line in flattened(lines) if isinstance(line, Instruction) and line.mark]
        if marked and not inline:
            outer, number = self._function, self._line
            head += self.begin_function(name)
            mark = self._at(number)
            for instruction in marked:
                instruction.mark = mark
            self._function, self._line = outer, number
        return super().define_function(name, head, lines, names, inline=inline)

    def emit(self, type: str, *parts: str) -> SSAValue:
        result = super().emit(type, *parts)
        self._mark_last()
        return result

    def do(self, *parts: str) -> None:
        super().do(*parts)
        self._mark_last()

    def record(self, instruction: Instruction) -> None:
        super().record(instruction)
        self._mark_last()

    def _mark_last(self) -> None:
        last = self.lines[-1]
        assert isinstance(last, Instruction)
        last.mark = self.mark

    @property
    def mark(self) -> str:
        """Return the mark of an instruction at the current location."""
        return self._at(self._line)

    @property
    def metadata(self) -> str:
        """Return the metadata that belongs at the end of the module."""
        return _UNIT + "\n".join(self._metadata)

    def _at(self, line: int) -> str:
        key = self._function, line
        mark = self._marks.get(key)
        if mark is None:
            number = self._add(f"!DILocation(line: {line}, scope: !{self._function})")
            mark = self._marks[key] = f", !dbg !{number}"
        return mark

    def _add(self, node: str) -> int:
        number = _FIRST + len(self._metadata)
        self._metadata.append(f"!{number} = {node}")
        return number


class LocatedEmitter(Emitter):
    """Emits the instructions of each operation at the operation's location."""

    def operation(self, op: Operation) -> None:
        assert isinstance(self.b, LocatedBuilder)
        with self.b.at(op.location):
            super().operation(op)

    def compute(self, value: Value, at: Coords) -> Chunk:
        assert isinstance(self.b, LocatedBuilder)
        op, lines = value.defining_op, self.b.lines
        first, own = len(lines), ""
        with self.b.at(op.location if op is not None else None):
            own = self.b.mark
            chunk = super().compute(value, at)
        if isinstance(chunk, Affine):
            # An affine chunk is an address or an index. The time for computing it is attributed to
            # the line that uses it.
            for line in flattened(lines[first:]):
                if isinstance(line, Instruction) and line.mark == own:
                    line.mark = self.b.mark
        return chunk
