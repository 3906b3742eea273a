"""Tests of the reader of nvdisasm's listings: instructions, rarely executed code, and loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.compilation.machine_code import constant_trip_count, read_machine_code

GOLDEN = """\
kernel:
.text.kernel:
\t//## File "/somewhere/kernel.py", line 7
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
\t//## File "/somewhere/kernel.py", line 9
        /*0010*/              @!P2 LDG.E.128 R8, desc[UR4][R2.64+0x10] ;
.L_x_0:
        /*0020*/                   LDSM.16.M88.4 R20, [R0+0x200] ;
        /*0030*/              @!PT LDS RZ, [RZ] ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
\t//## File "/elsewhere/standard.py", line 3
        /*0050*/                   STG.E.U16 desc[UR10][R2.64], R61 ;
        /*0060*/               @P1 BRA `(.L_x_1) ;
        /*0070*/                   EXIT ;
.L_x_2:
        /*0080*/                   BRA `(.L_x_2);
        /*0090*/                   NOP;
"""


def listing(*body: str, before: str = "MOV R1, RZ") -> str:
    """Return the listing of a loop with one instruction before it."""
    lines = [f"        /*0000*/   {before} ;", ".L_x_1:"]
    lines += [f"        /*{16 * n:04x}*/   {text} ;" for n, text in enumerate(body, 1)]
    return "\n".join([*lines, "        /*0ff0*/   EXIT ;"])


def test_a_listing() -> None:
    code = read_machine_code(GOLDEN)
    fields = [
        (instruction.opcode, instruction.guard, instruction.line, instruction.bytes)
        for instruction in code.instructions
    ]
    assert fields[:3] == [
        ("LDC", "", ("kernel.py", 7), 4),
        ("LDG.E.128", "!P2", ("kernel.py", 9), 16),
        ("LDSM.16.M88.4", "", ("kernel.py", 9), 16),
    ]
    assert fields[4] == ("STG.E.U16", "", ("standard.py", 3), 2)
    # Padding is omitted: `@!PT LDS`, which never executes, and what follows the branch to itself.
    names = [instruction.name for instruction in code.instructions]
    assert names == ["LDC", "LDG", "LDSM", "BRA", "STG", "BRA", "EXIT", "BRA"]
    assert [(loop.first, loop.last, loop.parent) for loop in code.loops] == [
        (2, 3, 1),
        (1, 5, None),
    ]
    assert list(code.inner) == [None, 1, 0, 0, 1, 1, None, None]
    assert [at for at, _ in code.body(1)] == [1, 4, 5]


@given(
    begin=st.integers(-1000, 1000),
    step=st.integers(1, 64),
    trip_count=st.integers(1, 5000),
    down=st.booleans(),
    move=st.sampled_from(["MOV", "UMOV", "IMAD.MOV.U32"]),
)
def test_constant_trip_counts(
    begin: int, step: int, trip_count: int, down: bool, move: str
) -> None:
    step = -step if down else step
    padding = "RZ, RZ, " if move.startswith("IMAD") else ""
    text = listing(
        f"IADD3 R1, R1, {step:#x}, RZ",
        "FFMA R2, R3, R4, R2",
        f"ISETP.NE.AND P0, PT, R1, {begin + trip_count * step:#x}, PT",
        "@P0 BRA `(.L_x_1)",
        before=f"{move} R1, {padding}{begin:#x}",
    )
    code = read_machine_code(text)
    assert constant_trip_count(code, code.loops[0]) == trip_count


@pytest.mark.parametrize("bound", ["R9", "c[0x0][0x228]"])
def test_other_trip_counts_are_unknown(bound: str) -> None:
    text = listing(
        "VIADD R1, R1, 0x1", f"ISETP.NE.AND P0, PT, R1, {bound}, PT", "@P0 BRA `(.L_x_1)"
    )
    code = read_machine_code(text)
    assert constant_trip_count(code, code.loops[0]) is None


@pytest.mark.parametrize(
    ("test", "inside", "rare"),
    [
        ("FSETP.GE.AND P0, PT, R4, 105615, PT", "STL [R2], R4", True),
        ("FSETP.GE.AND P0, PT, R4, 105615, PT", "CALL.REL.NOINC `(.L_x_9)", True),
        ("FSETP.GE.AND P0, PT, R4, 105615, PT", "FADD R4, R4, R4", False),
        ("ISETP.GE.AND P0, PT, R4, R5, PT", "STL [R2], R4", False),
    ],
)
def test_code_for_extreme_arguments_is_rare(test: str, inside: str, rare: bool) -> None:
    lines = [test, "@!P0 BRA `(.L_x_3)", inside, "FMUL R4, R4, R4"]
    text = "\n".join(
        [
            *(f"        /*{16 * n:04x}*/   {line} ;" for n, line in enumerate(lines)),
            ".L_x_3:",
            "        /*0ff0*/   EXIT ;",
        ]
    )
    assert [e.rare for e in read_machine_code(text).instructions] == [False] * 2 + [rare] * 2 + [
        False
    ]
