"""Instructions of NVIDIA's machine code, its loops, and how often each is executed.

A loop ends in a branch back. Where it counts by constants, the code says how often it turns; else
the counts of the source lines in it do, divided by the copies that compilers made of its body: an
iteration has as many bytes to load and operations on f32 as its source lines, not more. Functions
and divisions become many operations, so lines with them say nothing. Must not know how long
anything takes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Line = tuple[str, int]

_INSTRUCTION = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?(U?P\w+)\s+)?([A-Z0-9_]+(?:\.[A-Za-z0-9_]+)*)\s*(.*)$"
)
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"^(\.L_\w+):")
_TARGET = re.compile(r"\((\.L_\w+)\)|`\((\.L_\w+)\)|(\.L_x_\d+)")
_COMPARISON = re.compile(r"(U?P\d+), U?PT, ([-\w.]+), ([-\w.]+), U?PT")
_NUMBER = re.compile(r"-?0x[0-9a-f]+")
_BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
_MOST_TURNS = 1 << 24
_WARP = 32


@dataclass(frozen=True)
class Instruction:
    """One of them.

    Attributes:
        opcode: with its modifiers, `LDG.E.128`.
        operands: as they are printed.
        guard: the predicate that it depends on, if any.
        line: of the source; names of files without folders.
    """

    opcode: str
    operands: str
    guard: str
    line: Line | None

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def bytes(self) -> int:
        """That a thread moves by it, if it moves any."""
        sizes = (_BYTES[part] for part in self.opcode.split(".")[1:] if part in _BYTES)
        return next(sizes, 4)


@dataclass
class Loop:
    """Instructions `first` to `last`, the branch back.

    Attributes:
        parent: the loop around it, by number.
        turns: of a warp, over all turns of the loops around it.
    """

    first: int
    last: int
    parent: int | None = None
    turns: float = 1.0


@dataclass
class MachineCode:
    """A kernel's instructions, and their loops, inner ones first.

    Attributes:
        inner: the innermost loop of each instruction, by number.
    """

    instructions: list[Instruction]
    loops: list[Loop]
    inner: list[int | None] = field(default_factory=list)

    def executed(self) -> Iterator[tuple[Instruction, float]]:
        """Each instruction, and how often a warp executes it."""
        for instruction, loop in zip(self.instructions, self.inner, strict=True):
            yield instruction, 1.0 if loop is None else self.loops[loop].turns


def read(listing: str) -> MachineCode:
    """The machine code in a listing of `nvdisasm` with lines."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    line: Line | None = None
    for text in listing.splitlines():
        if place := _PLACE.search(text):
            line = place[1].rpartition("/")[2], int(place[2])
        elif label := _LABEL.match(text):
            labels[label[1]] = len(instructions)
        elif found := _INSTRUCTION.match(text):
            instructions.append(Instruction(found[2], found[3], found[1] or "", line))
    loops = _loops(instructions, labels)
    inner: list[int | None] = [None] * len(instructions)
    for number, loop in enumerate(loops):
        for at in range(loop.first, loop.last + 1):
            inner[at] = number if inner[at] is None else inner[at]
    return MachineCode(instructions, loops, inner)


def _loops(instructions: Sequence[Instruction], labels: Mapping[str, int]) -> list[Loop]:
    ends: dict[int, int] = {}
    for at, instruction in enumerate(instructions):
        target = _TARGET.search(instruction.operands) if instruction.name == "BRA" else None
        first = labels.get(next(filter(None, target.groups()))) if target else None
        if first is not None and first < at:
            ends[first] = max(at, ends.get(first, 0))
    loops = [Loop(*each) for each in sorted(ends.items(), key=lambda each: each[1] - each[0])]
    for number, loop in enumerate(loops):
        around = (
            other
            for other in range(number + 1, len(loops))
            if loops[other].first <= loop.first and loop.last <= loops[other].last
        )
        loop.parent = next(around, None)
    return loops


def count_turns(
    code: MachineCode, lines: Sequence[Mapping[str, Any]], programs: int, warps: int
) -> None:
    """Finds how often each loop turns.

    Args:
        code: takes what is found.
        lines: counts of a launch by source line, as `gpu_points.py` writes them.
        programs: of the launch.
        warps: of a program.
    """
    counts = {(each["line"][0], each["line"][1]): each for each in lines if each["line"]}
    for number in reversed(range(len(code.loops))):
        loop = code.loops[number]
        outer = 1.0 if loop.parent is None else code.loops[loop.parent].turns
        constant = _constant_turns(code, loop)
        if constant:
            loop.turns = constant * outer
            continue
        own = Counter(
            counts[line]["executions"] / programs
            for at in range(loop.first, loop.last + 1)
            if code.inner[at] == number and (line := code.instructions[at].line) in counts
        )
        # A stray line of another loop is not the loop's.
        usual = [turns for turns, n in own.items() if n >= 0.1 * own.total()]
        loop.turns = max(usual, default=outer) / _copies(code, number, counts, warps)


def _constant_turns(code: MachineCode, loop: Loop) -> float | None:
    """Of a loop whose counter begins, steps and ends at numbers that the code holds."""
    body = code.instructions[loop.first : loop.last + 1]
    for compared in reversed(body):
        found = _COMPARISON.match(compared.operands)
        if not compared.opcode.startswith(("ISETP", "UISETP")) or not found:
            continue
        if body[-1].guard and found[1] != body[-1].guard:
            continue
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
        operands = [operand.strip(" ;") for operand in each.operands.split(",")]
        if operands[0] == counter:
            return _number(operands[1]) if each.name in ("MOV", "UMOV", "MOV32I") else None
    return None


def _copies(
    code: MachineCode, number: int, counts: Mapping[Line, Mapping[str, Any]], warps: int
) -> int:
    """How often the body of a loop stands in it, at least."""
    flops: Counter[Line] = Counter()
    loaded: Counter[Line] = Counter()
    for instruction, loop in zip(code.instructions, code.inner, strict=True):
        line = instruction.line
        if loop != number or line is None or line not in counts:
            continue
        if instruction.name in ("FFMA", "FADD", "FMUL", "HFMA2"):
            flops[line] += {"FFMA": 2, "HFMA2": 4}.get(instruction.name, 1)
        elif instruction.name in ("LDG", "LDGSTS"):
            loaded[line] += instruction.bytes
    found = []
    for line, n in flops.items():
        operations, executions = counts[line]["operations"], counts[line]["executions"]
        if operations.get("fp32") and not {"function", "divide"} & operations.keys():
            found.append(n * _WARP * warps / (operations["fp32"] / executions))
    for line, n in loaded.items():
        each = counts[line]
        if each["loaded"] and each["lanes"] > each["masked_off"]:
            whole = each["loaded"] * each["lanes"] / (each["lanes"] - each["masked_off"])
            found.append(n * _WARP * warps / (whole / each["executions"]))
    return max(1, round(min(found, default=1)))
