"""Instructions and loops of NVIDIA machine code, read from a listing.

A loop ends with a backward branch. The trip count is known if the loop counter has constant bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ttools.core.compilation.string_escapes import unescape_assembly
from ttools.core.ownership import is_triton_file

#: File name without folders, and line number.
Line = tuple[str, int]

_INSTRUCTION = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z0-9_]+(?:\.[A-Za-z0-9_]+)*)\s*(.*?)\s*;"
)
#: A source line; if it belongs to an inlined function, the next such line in the listing is that of
#: the call.
_PLACE = re.compile(r'//## File "((?:[^"\\]|\\.)*)", line (\d+)( inlined at)?')
_LABEL = re.compile(r"^(\.L_\w+):")
_TARGET = re.compile(r"\((\.L_\w+)\)|(\.L_x_\d+)")
_COMPARISON = re.compile(r"(U?P\d+), U?PT, ([-\w.]+), ([-\w.]+), U?PT")
_NUMBER = re.compile(r"-?0x[0-9a-f]+")
_BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
_MOST_ITERATIONS = 1 << 24
#: Instructions that set a predicate by a floating-point comparison.
_FLOAT_TESTS = ("FSETP", "DSETP", "HSETP2", "FCHK")


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    Attributes:
        opcode: Mnemonic with modifiers, such as `LDG.E.128`.
        operands: Text of the operands, as printed.
        guard: The predicate that controls execution, such as `!P0`; empty if there is none.
        rare: True if the instruction is in the rarely executed part of a library function that
            handles extreme values.
        user_line: Innermost line outside Triton's own functions: for an instruction of `tl.sum`,
            the line that calls it.
    """

    opcode: str
    operands: str
    guard: str
    line: Line | None
    rare: bool = False
    user_line: Line | None = None

    @property
    def name(self) -> str:
        """Return the opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def bytes(self) -> int:
        """Return how many bytes the instruction moves per thread, if it moves any."""
        if self.name in ("LDSM", "STSM"):
            return 4 * int(self.opcode[-1]) if self.opcode[-2] == "." else 4
        sizes = (_BYTES[part] for part in self.opcode.split(".")[1:] if part in _BYTES)
        return next(sizes, 4)


@dataclass(frozen=True)
class Loop:
    """A loop: the instructions from `first` to `last`; the last one is the backward branch.

    Attributes:
        parent: Index of the enclosing loop.
    """

    first: int
    last: int
    parent: int | None = None


@dataclass(frozen=True)
class MachineCode:
    """A kernel's instructions and loops, inner loops first.

    Attributes:
        inner: Index of the innermost loop of each instruction.
    """

    instructions: Sequence[Instruction]
    loops: Sequence[Loop] = ()
    inner: Sequence[int | None] = field(default=())

    def body(self, number: int | None) -> Iterator[tuple[int, Instruction]]:
        """Yield index and instruction for the code directly in a loop, or for None, in no loop."""
        for at, instruction in enumerate(self.instructions):
            if self.inner[at] == number:
                yield at, instruction


def read_machine_code(listing: str) -> MachineCode:
    """Parse a listing of `nvdisasm` with source lines."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    line: Line | None = None
    user_line: Line | None = None
    is_call = False
    for text in listing.splitlines():
        if instruction := _INSTRUCTION.match(text):
            is_call = False
            # Instructions with `@!PT` never execute; they are padding.
            if instruction[1] != "!PT" and instruction[2] != "NOP":
                opcode, operands, guard = instruction[2], instruction[3], instruction[1] or ""
                instructions.append(Instruction(opcode, operands, guard, line, user_line=user_line))
        elif place := _PLACE.search(text):
            file = unescape_assembly(place[1])
            named = file.rpartition("/")[2], int(place[2])
            if not is_call:
                line, user_line = named, None
            if user_line is None and not is_triton_file(file):
                user_line = named
            is_call = place[3] is not None
        elif label := _LABEL.match(text):
            labels[label[1]] = len(instructions)
    for first, last in _detours(instructions, labels):
        for at in range(first, last):
            instructions[at] = replace(instructions[at], rare=True)
    loops = _loops(instructions, labels)
    inner: list[int | None] = [None] * len(instructions)
    for number, loop in enumerate(loops):
        for at in range(loop.first, loop.last + 1):
            inner[at] = number if inner[at] is None else inner[at]
    return MachineCode(instructions, loops, inner)


def _target(instruction: Instruction, labels: Mapping[str, int]) -> int | None:
    """Return the index of the instruction to which a branch jumps; None for other instructions."""
    label = _TARGET.search(instruction.operands) if instruction.name == "BRA" else None
    return labels.get(label[1] or label[2]) if label else None


def _detours(
    instructions: Sequence[Instruction], labels: Mapping[str, int]
) -> Iterator[tuple[int, int]]:
    """Yield ranges of rarely executed instructions, which a floating-point test may skip.

    Such a range contains a call, a loop or a spill.
    """
    for at, instruction in enumerate(instructions):
        target = _target(instruction, labels)
        if not instruction.guard or target is None or target <= at + 1:
            continue
        predicate = instruction.guard.lstrip("!")
        setter = next((e for e in reversed(instructions[:at]) if _sets(e, predicate)), None)
        if setter is None or setter.name not in _FLOAT_TESTS:
            continue
        skipped = range(at + 1, target)
        if any(_is_odd(instructions[index], index, labels) for index in skipped):
            yield at + 1, target


def _sets(instruction: Instruction, predicate: str) -> bool:
    return predicate in [operand.strip() for operand in instruction.operands.split(",")[:2]]


def _is_odd(instruction: Instruction, at: int, labels: Mapping[str, int]) -> bool:
    target = _target(instruction, labels)
    back = target is not None and target <= at
    return back or instruction.name in ("LDL", "STL", "CALL")


def _loops(instructions: Sequence[Instruction], labels: Mapping[str, int]) -> list[Loop]:
    ends: dict[int, int] = {}
    for at, instruction in enumerate(instructions):
        first = _target(instruction, labels)
        if first is not None and first < at:
            ends[first] = max(at, ends.get(first, 0))
    spans = sorted(ends.items(), key=lambda span: span[1] - span[0])
    loops = []
    for number, (first, last) in enumerate(spans):
        enclosing = (
            other
            for other in range(number + 1, len(spans))
            if spans[other][0] <= first and last <= spans[other][1]
        )
        loops.append(Loop(first, last, next(enclosing, None)))
    return loops


_UNIFORM = re.compile(r"\bUP\d\b")


def constant_trip_count(code: MachineCode, loop: Loop) -> float | None:
    """Return a loop's trip count if its counter has constant start, step and end, else None."""
    body = code.instructions[loop.first : loop.last + 1]
    guard = body[-1].guard.lstrip("!")
    for compared in reversed(body):
        if guard and guard not in _predicates(compared):
            continue
        if compared.name == "PLOP3" and (uniform := _UNIFORM.search(compared.operands)):
            guard = uniform[0]  # the predicate is copied from this uniform predicate
            continue
        comparison = _COMPARISON.match(compared.operands)
        if not compared.opcode.startswith(("ISETP", "UISETP")) or not comparison:
            if guard:
                return None
            continue
        if guard and comparison[1] != guard:
            return None
        counter, bound = (operand.replace(".reuse", "") for operand in comparison.groups()[1:])
        if _number(counter) is not None:
            counter, bound = bound, counter
        end, step = _number(bound), _step(body, counter)
        begin = _begin(code.instructions[: loop.first], counter)
        if end is None or not step or begin is None:
            return None
        trip_count = (end - begin) / step
        return trip_count if 1 <= trip_count < _MOST_ITERATIONS else None
    return None


def _predicates(instruction: Instruction) -> tuple[str, ...]:
    """Return the predicates that an instruction may write: those in its first two operands."""
    return tuple(operand.strip() for operand in instruction.operands.split(",")[:2])


def _number(text: str) -> int | None:
    if text in ("RZ", "URZ"):
        return 0
    return int(text, 16) if _NUMBER.fullmatch(text) else None


def _step(body: Sequence[Instruction], counter: str) -> int | None:
    pattern = re.compile(rf"{counter}, {counter}(?:\.reuse)?, (-?0x[0-9a-f]+)")
    for instruction in body:
        match = pattern.match(instruction.operands)
        if match and instruction.name in ("IADD3", "UIADD3", "VIADD"):
            return int(match[1], 16)
    return None


def _begin(before: Sequence[Instruction], counter: str) -> int | None:
    for instruction in reversed(before):
        operands = [operand.strip() for operand in instruction.operands.split(",")]
        if operands[0] == counter:
            move = (
                instruction.name in ("MOV", "UMOV", "MOV32I", "CS2R")
                or instruction.opcode == "IMAD.MOV.U32"
            )
            value = operands[1].replace("SRZ", "RZ") if len(operands) == 2 else operands[-1]
            return _number(value) if move else None
    return None
