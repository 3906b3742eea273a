"""The chain of results that a single warp waits for.

The instructions of the kernel are issued in order, each one as soon as its operands are ready. The
longest chain is the sequence of waits that ends last. It is given as the number of results per unit
that computes them. For example, a load, an addition of the loaded value and a store wait for one
`load` and one `float`.

For a loop, the waits are taken from the last of several simulated iterations, because a load that
an earlier iteration has issued need not be waited for in full again. The latencies here are rough
and only decide which chain is the longest; `model` multiplies the numbers of results by fitted
latencies.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttools.core.compilation.machine_code import Instruction, MachineCode
from ttools.profiler.gpu_time.units import unit_of

#: Approximate latencies in cycles; they only affect which chain is the longest.
LATENCIES: Mapping[str, float] = {
    "load": 600.0,
    "copy": 700.0,
    "atomic": 700.0,
    "local": 40.0,
    "shared load": 30.0,
    "shared atomic": 60.0,
    "shuffle": 25.0,
    "function": 25.0,
    "conversion": 15.0,
    "double": 10.0,
    "matrix": 35.0,
    "barrier": 25.0,
    "issue": 1.0,
}
_LATENCY = 5.0
_REGISTER = re.compile(r"\b(U?R|U?P)(\d+)\b")
_SPANS = {"128": 4, "64": 2, "WIDE": 2}


@dataclass(frozen=True, slots=True)
class _When:
    """A time in cycles, with the chain of results that were waited for until this time."""

    cycles: float = 0.0
    unit: str = ""
    before: _When | None = None

    def after(self, unit: str, cycles: float) -> _When:
        return _When(self.cycles + cycles, unit, self)

    def waited(self) -> Counter[str]:
        """Return the number of results that were waited for until this time, by unit."""
        results: Counter[str] = Counter()
        at: _When | None = self
        while at is not None and at.before is not None:
            results[at.unit] += 1
            at = at.before
        return results


def waits_of(code: MachineCode, trips: Sequence[float]) -> dict[str, float]:
    """Return the number of results that a warp waits for in sequence, by unit.

    The entry `issue` is the number of issued instructions on the chain.

    Args:
        trips: Trip count of each loop, summed over the iterations of outer loops.
    """
    waits: defaultdict[str, float] = defaultdict(float)
    for number, times in (*enumerate(trips), (None, 1.0)):
        for unit, n in _body(code, number).items():
            waits[unit] += n * times
    return dict(waits)


def _body(code: MachineCode, number: int | None) -> dict[str, float]:
    """Return the waits of one iteration of a loop."""
    steps = [_Step(instruction) for _, instruction in code.body(number) if not instruction.rare]
    warp = _Warp()
    if number is None:
        warp.run(steps)
        return dict(warp.now.waited())
    # From the second iteration on, loads of the preceding iteration are in flight. Only
    # asynchronous copies (cp.async) are issued more than one iteration ahead.
    warp.run(steps)
    copies = any(instruction.name == "LDGDEPBAR" for instruction in steps)
    if copies:
        warp.run(steps)
    begin, trips = warp.now, 4 if copies else 1
    for _ in range(trips):
        warp.run(steps)
    before = begin.waited()
    return {unit: (n - before[unit]) / trips for unit, n in warp.now.waited().items()}


class _Step:
    """An instruction with the registers that it needs and writes."""

    def __init__(self, instruction: Instruction) -> None:
        self.name, self.unit = instruction.name, unit_of(instruction)
        self.latency = LATENCIES.get(self.unit, _LATENCY)
        self.written, read = _registers(instruction)
        # An instruction whose guard may suppress it also depends on the old value of its result.
        self.needed = (*read, *self.written) if instruction.guard else tuple(read)
        self.allowed = _allowed(instruction) if self.name == "DEPBAR" else None


class _Warp:
    """A warp that issues instructions in order."""

    def __init__(self) -> None:
        self.now = _When()
        self._ready: dict[str, _When] = {}
        self._groups: list[_When] = []
        self._copied = _When()

    def run(self, steps: Sequence[_Step]) -> None:
        """Issue instructions one after the other."""
        for step in steps:
            begin = self.now
            for register in step.needed:
                ready = self._ready.get(register)
                if ready is not None and ready.cycles > begin.cycles:
                    begin = ready
            if step.name == "LDGDEPBAR":
                self._groups.append(self._copied)
            elif step.allowed is not None:
                done = self._groups[: len(self._groups) - step.allowed]
                if done and done[-1].cycles > begin.cycles:
                    begin = done[-1]
            elif step.unit == "barrier":
                begin = begin.after("barrier", step.latency)
            self.now = begin.after("issue", 1.0)
            done_at = self.now.after(step.unit, step.latency)
            if step.unit == "copy":
                self._copied = done_at
            for register in step.written:
                self._ready[register] = done_at


def _allowed(instruction: Instruction) -> int | None:
    """Return the number of copy groups that may stay in flight after a DEPBAR instruction."""
    match = re.search(r"SB0, (0x[0-9a-f]+)", instruction.operands)
    return int(match[1], 16) if match else None


def _registers(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Return the written and the read registers."""
    operands = instruction.operands.split(",")
    stores = unit_of(instruction) in ("store", "shared store", "copy", "control") or (
        instruction.name in ("STL", "RED", "REDG")
    )
    written: list[str] = []
    n = 0
    if not stores:
        n = 2 if len(operands) > 1 and re.fullmatch(r"\s*U?P[T\d]\s*", operands[1]) else 1
        if instruction.name in ("SHFL", "ATOMS", "ATOMG") and "P" in operands[0]:
            n = 2
        written = _named(",".join(operands[:n]))
        if written:
            written += _wider(written[-1], instruction)
    read = _named(",".join(operands[n:])) + _named(instruction.guard)
    return written, read


def _named(text: str) -> list[str]:
    return [f"{kind}{number}" for kind, number in _REGISTER.findall(text)]


def _wider(register: str, instruction: Instruction) -> list[str]:
    spans = (_SPANS[part] for part in instruction.opcode.split(".") if part in _SPANS)
    kind, number = register.rstrip("0123456789"), int(re.sub(r"\D", "", register))
    span = 4 if instruction.opcode.endswith("M88.4") else next(spans, 1)
    return [f"{kind}{number + more}" for more in range(1, span)]
