"""Tests of wavefronts of shared memory, from the addresses that machine code computes for lanes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.compilation.machine_code import read_machine_code
from ttools.core.compilation.shared_banks import shared_wavefronts


def wavefronts(*instructions: str) -> list[float]:
    text = "\n".join(f"        /*{16 * n:04x}*/   {e} ;" for n, e in enumerate(instructions))
    return list(shared_wavefronts(read_machine_code(text)).values())


def oracle(addresses: list[int], size: int) -> int:
    """Return the number of wavefronts of an access by 32 lanes.

    In each wavefront, each of the 32 banks serves one word of 4 bytes. Accesses of 16 bytes per
    lane are split into groups of 8 lanes.

    Args:
        addresses: Address of each lane in bytes.
        size: Bytes per lane.
    """
    lanes = 8 if size == 16 else 32
    total = 0
    for first in range(0, 32, lanes):
        words_of_bank: dict[int, set[int]] = {}
        for address in addresses[first : first + lanes]:
            for word in range(address // 4, address // 4 + max(1, size // 4)):
                words_of_bank.setdefault(word % 32, set()).add(word)
        total += max(map(len, words_of_bank.values()))
    return total


@given(
    stride=st.sampled_from([0, 4, 8, 12, 16, 32, 64, 128, 132, 256, 1024]),
    swizzle=st.sampled_from([0, 1, 3, 7]),
    width=st.sampled_from([("", 4), (".64", 8), (".128", 16)]),
)
def test_strides_and_swizzles(stride: int, swizzle: int, width: tuple[str, int]) -> None:
    name, size = width
    stride -= stride % size
    actual = wavefronts(
        "S2R R0, SR_TID.X",
        f"LOP3.LUT R1, R0, {swizzle:#x}, RZ, 0xc0, !PT",
        f"IMAD R2, R0, {stride:#x}, RZ",
        f"IMAD.SHL.U32 R3, R1, {size:#x}, RZ",
        "LOP3.LUT R4, R2, R3, RZ, 0x3c, !PT",
        f"LDS{name} R8, [R4+0x100]",
    )
    addresses = [((lane * stride) ^ (lane & swizzle) * size) + 256 for lane in range(32)]
    assert actual == [oracle(addresses, size)]


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        (["LDS R1, [UR4+0x20]"], 1),  # a base that all lanes share
        (
            ["LDG.E R5, desc[UR4][R2.64]", "LDS R1, [R5]"],
            1,
        ),  # unknown addresses: no conflicts are assumed
        (["LDG.E R5, desc[UR4][R2.64]", "LDS.128 R4, [R5]"], 4),
        (["S2R R0, SR_TID.X", "IMAD.SHL.U32 R0, R0, 0x80, RZ", "STS [R0+UR4], R2"], 32),
        (["S2R R0, SR_TID.X", "LEA R3, R0, UR4, 0x7", "STS [R3], R2"], 1),  # UR4 is unknown
        (["S2R R0, SR_TID.X", "UMOV UR4, 0x400", "LEA R3, R0, UR4, 0x7", "STS [R3], R2"], 32),
        (  # only the first lane stores
            [
                "S2R R0, SR_TID.X",
                "ISETP.NE.AND P0, PT, R0, RZ, PT",
                "IMAD.SHL.U32 R1, R0, 0x80, RZ",
                "@!P0 STS [R1], R2",
            ],
            1,
        ),
        (["S2R R0, SR_TID.X", "IMAD.SHL.U32 R0, R0, 0x10, RZ", "LDSM.16.M88.4 R4, [R0]"], 4),
        (["S2R R0, SR_TID.X", "IMAD.SHL.U32 R0, R0, 0x80, RZ", "LDSM.16.M88.4 R4, [R0]"], 32),
        (["S2R R0, SR_TID.X", "LDGSTS.E [R0.X16], desc[UR8][R4.64], P0"], 16 // 4),
    ],
)
def test_addresses(instructions: list[str], expected: float) -> None:
    assert wavefronts(*instructions) == [expected]


@given(a=st.integers(0, 2**32 - 1), table=st.integers(0, 255), shift=st.integers(0, 31))
def test_integer_instructions(a: int, table: int, shift: int) -> None:
    """Check LOP3 and SHF: a wrong result changes the banks of the lanes, and so the wavefronts."""
    actual = wavefronts(
        "S2R R0, SR_TID.X",
        f"LOP3.LUT R1, R0, {a:#x}, RZ, {table:#x}, !PT",
        f"SHF.R.U32.HI R2, RZ, {shift:#x}, R1",
        "IMAD.SHL.U32 R2, R2, 0x4, RZ",
        "LDS R3, [R2]",
    )
    lanes = np.arange(32, dtype=np.uint64)
    value = np.zeros(32, np.uint64)
    for bit in range(32):
        row = (lanes >> np.uint64(bit) & 1) * 4 + np.uint64((a >> bit & 1) * 2)
        value |= (np.uint64(table) >> row & np.uint64(1)) << np.uint64(bit)
    addresses = (value >> np.uint64(shift)) * np.uint64(4) & np.uint64(0xFFFFFFFF)
    assert actual == [oracle(addresses.astype(np.int64).tolist(), 4)]
