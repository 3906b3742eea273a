"""Instructions of NVIDIA's machine code, and its loops, read from a listing.

A loop ends in a branch back. Where it counts by constants, the code says how often it runs. Must
not know how long anything takes, nor what a launch does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

#: Name of a file without folders, and number.
from ttools.core.compilation.quoted import unescape_assembly

Line = tuple[str, int]

_INSTRUCTION = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z0-9_]+(?:\.[A-Za-z0-9_]+)*)\s*(.*?)\s*;"
)
_PLACE = re.compile(r'//## File "((?:[^"\\]|\\.)*)", line (\d+)')
_LABEL = re.compile(r"^(\.L_\w+):")
_TARGET = re.compile(r"\((\.L_\w+)\)|(\.L_x_\d+)")
_COMPARISON = re.compile(r"(U?P\d+), U?PT, ([-\w.]+), ([-\w.]+), U?PT")
_NUMBER = re.compile(r"-?0x[0-9a-f]+")
_BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
_MOST_TURNS = 1 << 24
#: What sets a predicate by a value in floating point.
_FLOAT_TESTS = ("FSETP", "DSETP", "HSETP2", "FCHK")


@dataclass(frozen=True)
class Instruction:
    """One of them.

    Attributes:
        opcode: with its modifiers, `LDG.E.128`.
        operands: as they are printed.
        guard: the predicate that it depends on, `!P0`; empty if there is none.
        rare: whether it is of a detour that a function of a library makes for extreme values.
    """

    opcode: str
    operands: str
    guard: str
    line: Line | None
    rare: bool = False

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def bytes(self) -> int:
        """That a thread moves by it, if it moves any."""
        if self.name in ("LDSM", "STSM"):
            return 4 * int(self.opcode[-1]) if self.opcode[-2] == "." else 4
        sizes = (_BYTES[part] for part in self.opcode.split(".")[1:] if part in _BYTES)
        return next(sizes, 4)


@dataclass(frozen=True)
class Loop:
    """Instructions `first` to `last`, the branch back.

    Attributes:
        parent: the loop around it, by number.
    """

    first: int
    last: int
    parent: int | None = None


@dataclass(frozen=True)
class MachineCode:
    """A kernel's instructions, and their loops, inner ones first.

    Attributes:
        inner: the innermost loop of each instruction, by number.
    """

    instructions: Sequence[Instruction]
    loops: Sequence[Loop] = ()
    inner: Sequence[int | None] = field(default=())

    def body(self, number: int | None) -> Iterator[tuple[int, Instruction]]:
        """Places and instructions of a loop without its inner loops; of no loop by None."""
        for at, instruction in enumerate(self.instructions):
            if self.inner[at] == number:
                yield at, instruction


def read_machine_code(listing: str) -> MachineCode:
    """The machine code in a listing of `nvdisasm` with lines."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    line: Line | None = None
    for text in listing.splitlines():
        if found := _INSTRUCTION.match(text):
            # `@!PT` pads: it is never executed.
            if found[1] != "!PT" and found[2] != "NOP":
                instructions.append(Instruction(found[2], found[3], found[1] or "", line))
        elif place := _PLACE.search(text):
            line = unescape_assembly(place[1]).rpartition("/")[2], int(place[2])
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
    """Where a branch goes."""
    found = _TARGET.search(instruction.operands) if instruction.name == "BRA" else None
    return labels.get(found[1] or found[2]) if found else None


def _detours(
    instructions: Sequence[Instruction], labels: Mapping[str, int]
) -> Iterator[tuple[int, int]]:
    """What a branch skips by a value in floating point, if it calls, loops or uses local memory."""
    for at, instruction in enumerate(instructions):
        target = _target(instruction, labels)
        if not instruction.guard or target is None or target <= at + 1:
            continue
        tested = instruction.guard.lstrip("!")
        setter = next((e for e in reversed(instructions[:at]) if _sets(e, tested)), None)
        if setter is None or setter.name not in _FLOAT_TESTS:
            continue
        skipped = range(at + 1, target)
        if any(_is_odd(instructions[each], each, labels) for each in skipped):
            yield at + 1, target


def _sets(instruction: Instruction, predicate: str) -> bool:
    return predicate in [each.strip() for each in instruction.operands.split(",")[:2]]


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
    spans = sorted(ends.items(), key=lambda each: each[1] - each[0])
    found = []
    for number, (first, last) in enumerate(spans):
        around = (
            other
            for other in range(number + 1, len(spans))
            if spans[other][0] <= first and last <= spans[other][1]
        )
        found.append(Loop(first, last, next(around, None)))
    return found


_UNIFORM = re.compile(r"\bUP\d\b")


def constant_turns(code: MachineCode, loop: Loop) -> float | None:
    """How often a loop runs whose counter begins, steps and ends at numbers in the code."""
    body = code.instructions[loop.first : loop.last + 1]
    guard = body[-1].guard.lstrip("!")
    for compared in reversed(body):
        if guard and guard not in _predicates(compared):
            continue
        if compared.name == "PLOP3" and (uniform := _UNIFORM.search(compared.operands)):
            guard = uniform[0]  # is handed on
            continue
        found = _COMPARISON.match(compared.operands)
        if not compared.opcode.startswith(("ISETP", "UISETP")) or not found:
            if guard:
                return None
            continue
        if guard and found[1] != guard:
            return None
        counter, bound = (operand.replace(".reuse", "") for operand in found.groups()[1:])
        if _number(counter) is not None:
            counter, bound = bound, counter
        end, step = _number(bound), _step(body, counter)
        begin = _begin(code.instructions[: loop.first], counter)
        if end is None or not step or begin is None:
            return None
        turns = (end - begin) / step
        return turns if 1 <= turns < _MOST_TURNS else None
    return None


def _predicates(instruction: Instruction) -> tuple[str, ...]:
    """Those that it may write: of its first two operands."""
    return tuple(operand.strip() for operand in instruction.operands.split(",")[:2])


def _number(text: str) -> int | None:
    if text in ("RZ", "URZ"):
        return 0
    return int(text, 16) if _NUMBER.fullmatch(text) else None


def _step(body: Sequence[Instruction], counter: str) -> int | None:
    pattern = re.compile(rf"{counter}, {counter}(?:\.reuse)?, (-?0x[0-9a-f]+)")
    for each in body:
        found = pattern.match(each.operands)
        if found and each.name in ("IADD3", "UIADD3", "VIADD"):
            return int(found[1], 16)
    return None


def _begin(before: Sequence[Instruction], counter: str) -> int | None:
    for each in reversed(before):
        operands = [operand.strip() for operand in each.operands.split(",")]
        if operands[0] == counter:
            move = each.name in ("MOV", "UMOV", "MOV32I", "CS2R") or each.opcode == "IMAD.MOV.U32"
            value = operands[1].replace("SRZ", "RZ") if len(operands) == 2 else operands[-1]
            return _number(value) if move else None
    return None
