"""Stalls of a single warp, in straight-line code and per iteration of a loop."""

from __future__ import annotations

import pytest

from ttools.core.compilation.machine_code import read_machine_code
from ttools.profiler.gpu_time.waits import waits_of


def waits(*instructions: str, turns: float | None = None) -> dict[str, float]:
    body = [
        f"        /*{16 * n:04x}*/   {instruction} ;" for n, instruction in enumerate(instructions)
    ]
    if turns:
        body = [".L_x_0:", *body, "        /*0ff0*/   @P0 BRA `(.L_x_0) ;"]
    code = read_machine_code("\n".join(body))
    waits_found = waits_of(code, [turns] if turns else [])
    return {unit: n for unit, n in waits_found.items() if n and unit != "issue"}


LOAD, USE = "LDG.E R4, desc[UR4][R2.64]", "FADD R6, R4, R5"


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ([LOAD, "FADD R6, R7, R5"], {}),  # the value is not used
        ([LOAD, USE], {"load": 1}),
        ([LOAD, "LDG.E R5, desc[UR4][R2.64+0x10]", USE], {"load": 1}),  # both loads overlap
        (["LDG.E.64 R2, desc[UR4][R8.64]", "LDG.E R4, desc[UR4][R2.64]", USE], {"load": 2}),
        # The load writes four registers, of which R7 is used.
        (["LDG.E.128 R4, desc[UR4][R2.64]", "FADD R0, R7, R1"], {"load": 1}),
        (["LDS R4, [R1]", LOAD.replace("R4,", "R5,"), USE], {"load": 1}),  # the longer of two waits
        (["ISETP.NE.AND P0, PT, R1, RZ, PT", "@P0 FADD R1, R1, R1"], {"integer": 1}),
        (["MUFU.EX2 R1, R0", "FMUL R2, R1, R1", "FADD R3, R2, R2"], {"function": 1, "float": 1}),
        (["BAR.SYNC.DEFER_BLOCKING 0x0"] * 2, {"barrier": 2}),
    ],
)
def test_straight_code(instructions: list[str], expected: dict[str, float]) -> None:
    assert waits(*instructions) == expected


def test_an_iteration_waits_for_results_of_the_previous_one() -> None:
    assert waits("FFMA R2, R3, R4, R2", turns=10) == {"float": 10}
    assert waits(LOAD, "FADD R6, R4, R6", turns=10) == {"load": 10}
    assert waits("FFMA R2, R3, R4, R5", turns=10) == {}


def test_copies_are_waited_for_at_the_end_of_their_group() -> None:
    copy = ("LDGSTS.E.128 [R1], desc[UR8][R2.64]", "LDGDEPBAR")
    assert waits(*copy, "DEPBAR.LE SB0, 0x0", turns=8) == {"copy": 8}
    # With one group in flight, every second iteration waits for it.
    assert waits(*copy, "DEPBAR.LE SB0, 0x1", turns=8)["copy"] == 4


def test_rare_branches_are_not_counted() -> None:
    text = [
        "FSETP.GE.AND P0, PT, R4, 105615, PT", "@!P0 BRA `(.L_x_3)", LOAD, "STL [R2], R4",
    ]  # fmt: skip
    body = [f"        /*{16 * n:04x}*/   {instruction} ;" for n, instruction in enumerate(text)]
    code = read_machine_code("\n".join([*body, ".L_x_3:", f"        /*0ff0*/   {USE} ;"]))
    assert "load" not in waits_of(code, [])
