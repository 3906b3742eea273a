"""Counts the wavefronts of shared-memory accesses, from the addresses of a warp's lanes.

Shared memory has 32 banks of four bytes. Lanes that access different words in the same bank are
served in successive wavefronts. For example, if lane i accesses the word at byte 8 * i, lanes i and
i + 16 use the same bank, so the access takes two wavefronts. Addresses depend on the number of the
thread, so the integer instructions of the machine code are evaluated for the 32 lanes of the first
warp. Each instruction is evaluated once, in the order of the code. Values from memory, parameters
or the program id are unknown, and so are all values derived from them. Unknown terms of an address
are assumed to be the same for all lanes and a multiple of the width of all banks, so that they do
not affect conflicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ttools.core.compilation.machine_code import Instruction, MachineCode

#: One value per lane, modulo 2^32; None if the values are unknown.
Lanes = NDArray[np.int64] | None

_LANES = np.arange(32, dtype=np.int64)
_ZERO = np.zeros(32, np.int64)
_WORD = 0xFFFFFFFF
_BANKS, _BANK = 32, 4
_ACCESSES = ("LDS", "STS", "LDSM", "STSM", "LDGSTS", "ATOMS")
_ADDRESS = re.compile(r"\[([^\]]*)\]")
_SPECIAL = {"SR_TID.X": _LANES, "SR_LANEID": _LANES, "SRZ": _ZERO, "SR_CgaCtaId": _ZERO}
_SPECIAL |= {"SR_TID.Y": _ZERO, "SR_TID.Z": _ZERO}


def shared_wavefronts(code: MachineCode) -> dict[int, float]:
    """Return the number of wavefronts of each shared-memory access, by index of the instruction."""
    machine = _Machine()
    wavefronts = {}
    for at, instruction in enumerate(code.instructions):
        if instruction.name in _ACCESSES:
            wavefronts[at] = _wavefronts_of(instruction, machine)
        machine.step(instruction)
    return wavefronts


def least_wavefronts(instruction: Instruction) -> float:
    """Return the wavefronts of an access by all lanes in the absence of bank conflicts."""
    if instruction.name in ("LDSM", "STSM"):
        return float(instruction.bytes // 4)
    return max(1.0, instruction.bytes / _BANK)


def _wavefronts_of(instruction: Instruction, machine: _Machine) -> float:
    match = _ADDRESS.search(instruction.operands)
    size = instruction.bytes
    if instruction.name in ("LDSM", "STSM"):
        return _matrix_wavefronts(machine.address(match[1]) if match else None, size // 4)
    addresses = machine.address(match[1]) if match else None
    active = machine.active(instruction)
    if addresses is None:
        return least_wavefronts(instruction)
    lanes = 8 if size == 16 else 32
    groups = addresses.reshape(-1, lanes), active.reshape(-1, lanes)
    return max(1.0, sum(_bank_conflicts(*group, size) for group in zip(*groups, strict=True)))


def _matrix_wavefronts(addresses: Lanes, matrices: int) -> float:
    """Return the wavefronts of LDSM or STSM; eight lanes address the 16-byte rows of a matrix."""
    if addresses is None:
        return float(matrices)
    rows = addresses[: 8 * matrices].reshape(-1, 8)
    return sum(
        _bank_conflicts(addresses_of_rows, np.ones(8, bool), 16) for addresses_of_rows in rows
    )


def _bank_conflicts(addresses: NDArray[np.int64], active: NDArray[np.bool_], size: int) -> float:
    """Return the largest number of distinct words requested from one bank."""
    first = addresses[active] // _BANK
    words = np.unique(first[:, None] + np.arange(max(1, size // _BANK)))
    return float(np.bincount(words % _BANKS).max()) if len(words) else 0.0


class _Machine:
    """The known values of a warp's registers and predicates."""

    def __init__(self) -> None:
        self._registers: dict[str, Lanes] = {}
        self._predicates: dict[str, NDArray[np.bool_] | None] = {}

    def active(self, instruction: Instruction) -> NDArray[np.bool_]:
        """Return the lanes that execute an instruction; all lanes if that is unknown."""
        lanes = self.predicate(instruction.guard) if instruction.guard else None
        return np.ones(32, bool) if lanes is None else lanes

    def address(self, text: str) -> Lanes:
        """Return the address in brackets, a sum such as `R3+UR4+0x10` or `R3.X4`.

        Unknown uniform terms count as 0.
        """
        total = _ZERO
        for term in text.replace("+-", "+~").split("+"):
            register, _, scale = term.partition(".X")
            if term.startswith("~"):
                value: Lanes = _ZERO - int(term[1:], 16)
            else:
                value = self.value(register)
            if value is None:
                if not term.startswith("UR"):
                    return None
                value = _ZERO
            total = total + value * int(scale or 1)
        return total & _WORD

    def value(self, text: str) -> Lanes:
        text = text.strip().removesuffix(".reuse")
        if text.startswith("-"):
            value = self.value(text[1:])
            return None if value is None else -value & _WORD
        if text.startswith("~"):
            value = self.value(text[1:])
            return None if value is None else ~value & _WORD
        if text in ("RZ", "URZ"):
            return _ZERO
        if text.startswith("0x"):
            return _ZERO + (int(text, 16) & _WORD)
        return self._registers.get(text)

    def predicate(self, text: str) -> NDArray[np.bool_] | None:
        """Return a predicate's value; None if it is unknown."""
        name = text.strip().removeprefix("!")
        value = np.ones(32, bool) if name in ("PT", "UPT") else self._predicates.get(name)
        return value if value is None or not text.strip().startswith("!") else ~value

    def step(self, instruction: Instruction) -> None:
        operands = [operand.strip() for operand in instruction.operands.split(",")]
        kind = instruction.opcode.removeprefix("U").split(".")
        if kind[0] == "ISETP":
            self._compare(kind, operands)
            return
        if kind[0] == "R2P":
            self._spread(operands)
            return
        places = [
            n for n, operand in enumerate(operands) if re.fullmatch(r"U?R\d+|U?P\d|U?PT", operand)
        ]
        for name in operands[:2]:
            if re.fullmatch(r"U?P\d", name):
                self._predicates[name] = None
        target = next(
            (n for n in places if operands[n][-1].isdigit() and "P" not in operands[n]), None
        )
        if target is None or target > 1 or kind[0] in _STORES:
            return
        sources = [
            operand
            for operand in operands[target + 1 :]
            if not re.fullmatch(r"!?U?P(T|\d)", operand)
        ]
        rule = _RULES.get(kind[0])
        result = rule(self, kind, sources, operands) if rule else None
        guard = self.predicate(instruction.guard) if instruction.guard else None
        old = self._registers.get(operands[target])
        if guard is not None and old is not None and result is not None:
            result = np.where(guard, result, old)
        self._registers[operands[target]] = None if result is None else result & _WORD
        number = re.search(r"\d+", operands[target])
        assert number is not None
        for more in range(1, _width(instruction)):
            name = f"{operands[target][: number.start()]}{int(number[0]) + more}"
            self._registers[name] = _ZERO if kind[0] == "CS2R" else None

    def _compare(self, kind: list[str], operands: list[str]) -> None:
        one, other = self.value(operands[2]), self.value(operands[3])
        third = self.predicate(operands[4])
        result = None
        if one is not None and other is not None and third is not None and "EX" not in kind:
            if "U32" not in kind:
                one, other = _signed(one), _signed(other)
            compared = _COMPARISONS[kind[1]](one, other)
            join = next((part for part in kind if part in _JOINS), "AND")
            result = _JOINS[join](compared, third)
        self._predicates[operands[0]] = result
        if operands[1] not in ("PT", "UPT"):
            self._predicates[operands[1]] = None if result is None else ~result

    def _spread(self, operands: list[str]) -> None:
        value, mask = self.value(operands[1]), int(operands[2], 16)
        for bit in range(7):
            if mask >> bit & 1:
                bits = None if value is None else (value >> bit & 1).astype(bool)
                self._predicates[f"P{bit}"] = bits


def _signed(value: NDArray[np.int64]) -> NDArray[np.int64]:
    return (value ^ 0x80000000) - 0x80000000


_STORES = ("STG", "STS", "STSM", "STL", "LDGSTS", "RED", "REDG", "BRA", "BAR", "EXIT", "BSSY")
_COMPARISONS: dict[str, Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_JOINS: dict[str, Callable[[NDArray[np.bool_], NDArray[np.bool_]], NDArray[np.bool_]]] = {
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
}
_Rule = Callable[[_Machine, list[str], list[str], list[str]], Lanes]


def _width(instruction: Instruction) -> int:
    """Return the number of registers that an instruction writes."""
    if instruction.opcode.startswith(("IMAD.WIDE", "CS2R", "UIMAD.WIDE")):
        return 1 if ".32" in instruction.opcode else 2
    return max(1, instruction.bytes // 4) if instruction.name in ("LDG", "LDS", "LDSM") else 1


def _all_known(values: list[Lanes]) -> list[NDArray[np.int64]] | None:
    lanes = [value for value in values if value is not None]
    return lanes if len(lanes) == len(values) else None


def _move(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    return m.value(sources[0])


def _special(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    return _SPECIAL.get(sources[0])


def _sum(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    values = _all_known([m.value(source) for source in sources])
    return None if values is None or "X" in kind else np.sum(values, axis=0)


def _product(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    values = _all_known([m.value(source) for source in sources])
    if values is None or "HI" in kind or "X" in kind:
        return None
    return values[0] * values[1] + values[2]


def _shifted_sum(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    if "X" in kind:
        return None
    values, shift = _all_known([m.value(source) for source in sources[:-1]]), int(sources[-1], 16)
    if values is None:
        return None
    if "HI" in kind:
        return (values[0] >> (32 - shift)) + values[1] if sources[2] == "RZ" else None
    return (values[0] << shift) + values[1]


def _shift(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    values = _all_known([m.value(source) for source in sources])
    if values is None or "W" in kind or "U64" in kind or "S64" in kind:
        return None
    if kind[1] == "L":
        return values[0] << np.minimum(values[1], 32) if "HI" not in kind else None
    value = values[2] if "HI" in kind else values[0]
    return (_signed(value) if "S32" in kind else value) >> np.minimum(values[1], 32)


def _logic(m: _Machine, kind: list[str], sources: list[str], operands: list[str]) -> Lanes:
    values = [m.value(source) for source in sources[:3]]
    table = int(sources[3], 16)
    result = _ZERO
    for row in range(8):
        if not table >> row & 1:
            continue
        part = _ZERO + _WORD
        for value, bit in zip(values, (4, 2, 1), strict=True):
            if value is None:
                return None
            part = part & (value if row & bit else ~value)
        result = result | part
    return result


def _choice(m: _Machine, kind: list[str], sources: list[str], operands: list[str]) -> Lanes:
    one, other = m.value(sources[0]), m.value(sources[1])
    chosen = m.predicate(operands[-1])
    if one is None or other is None or chosen is None:
        return one if chosen is None or bool(chosen.all()) else None
    return np.where(chosen, one, other)


def _extend(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    value, bits = m.value(sources[0]), int(sources[1], 16)
    if value is None:
        return None
    value = value & ((1 << bits) - 1)
    if "U32" in kind:
        return value
    return (value ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _bytes(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    one, picks, other = (m.value(source) for source in sources)
    if one is None or picks is None or other is None:
        return None
    both, pick = one | (other << 32), int(picks[0])
    result = _ZERO
    for place in range(4):
        nibble = pick >> (4 * place) & 15
        byte = both >> (8 * (nibble & 7)) & 0xFF
        result = result | ((byte >> 7) * 0xFF if nibble & 8 else byte) << (8 * place)
    return result


def _first(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    value = m.value(sources[0])
    return None if value is None else _ZERO + value[0]


def _exchange(m: _Machine, kind: list[str], sources: list[str], _: list[str]) -> Lanes:
    value, lane = m.value(sources[0]), m.value(sources[1])
    if value is None or lane is None or kind[1] != "IDX":
        return None
    return np.take(value, lane & 31)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("MOV", "MOV32I"), _move),
    **dict.fromkeys(("S2R", "S2UR", "CS2R"), _special),
    **dict.fromkeys(("IADD3", "VIADD", "IADD"), _sum),
    **dict.fromkeys(("IMAD", "IMUL"), _product),
    "LEA": _shifted_sum,
    "SHF": _shift,
    "LOP3": _logic,
    "SEL": _choice,
    "SGXT": _extend,
    "PRMT": _bytes,
    "R2UR": _first,
    "SHFL": _exchange,
}
