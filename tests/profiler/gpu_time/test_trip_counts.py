"""Trip counts of loops in machine code, from constants in it or from counts of source lines."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ttools.core.compilation.machine_code import MachineCode, read_machine_code
from ttools.core.location import SourceLocation
from ttools.profiler.counting.counts import LineCounts, WorkCounts
from ttools.profiler.gpu_time.trip_counts import trip_counts


def loop(*body: str, before: str = "MOV R1, RZ") -> MachineCode:
    lines = ['\t//## File "kernel.py", line 7', f"        /*0000*/   {before} ;", ".L_x_1:"]
    lines += [
        f"        /*{16 * n:04x}*/   {instruction} ;" for n, instruction in enumerate(body, 1)
    ]
    return read_machine_code("\n".join([*lines, "        /*0ff0*/   EXIT ;"]))


def counted(programs: int, executions: int, **counts: Any) -> WorkCounts:
    place = SourceLocation("/somewhere/kernel.py", 7, 0)
    line = LineCounts(place, executions, **counts)
    return WorkCounts(programs, line, (line,))


def test_constants_take_precedence_over_counts() -> None:
    code = loop("IADD3 R1, R1, 0x4, RZ", "ISETP.NE.AND P0, PT, R1, 0x40, PT", "@P0 BRA `(.L_x_1)")
    assert trip_counts(code, counted(1, 99), warps=4) == [16]


def test_only_the_comparison_of_the_branch_has_the_counter() -> None:
    """Ignore the comparison of a mask whose predicate register the branch reuses."""
    body = (
        *("IADD3 R1, R1, 0x30, RZ", "ISETP.NE.U32.AND P0, PT, R1, RZ, PT"),
        *("UISETP.GE.AND UP0, UPT, UR5, UR28, UPT", "PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0"),
        "@!P0 BRA `(.L_x_1)",
    )
    code = loop(*body, before="IMAD.MOV.U32 R1, RZ, RZ, -0x800000")
    assert trip_counts(code, counted(1, 32), warps=4) == [32]
    # A register that is passed on may still be a counter.
    constant = (
        *("UIADD3 UR5, UR5, 0x4, URZ", "UISETP.GE.AND UP0, UPT, UR5, 0x40, UPT"),
        *("PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0", "@!P0 BRA `(.L_x_1)"),
    )
    code = loop(*constant, before="UMOV UR5, URZ")
    assert trip_counts(code, counted(1, 99), warps=4) == [16]


@given(
    copies=st.integers(1, 8),
    turns=st.integers(1, 50),
    programs=st.integers(1, 20),
    warps=st.sampled_from([1, 2, 4, 8]),
)
def test_copies_of_a_loop_body_reduce_the_trip_count(
    copies: int, turns: int, programs: int, warps: int
) -> None:
    code = loop(*["FFMA R2, R3, R4, R2"] * copies, "@P0 BRA `(.L_x_1)")
    # Each iteration executes one fused operation per lane.
    executions = programs * turns * copies
    operations = Counter({"fp32": executions * 2 * 32 * warps})
    counts = counted(programs, executions, operations=operations)
    assert trip_counts(code, counts, warps) == [turns]


def test_loads_reveal_copies_too() -> None:
    body = (*["LDG.E.128 R4, desc[UR6][R2.64]"] * 2, "MUFU.EX2 R8, R4", "@P0 BRA `(.L_x_1)")
    counts = counted(
        1, 40, lanes=40 * 512, masked_off=40 * 128, loaded=40 * 384 * 4,
        operations=Counter({"fp32": 1, "function": 40 * 512}),
    )  # fmt: skip
    assert trip_counts(loop(*body), counts, warps=4) == [40 / 2]


def test_an_unknown_trip_count_is_one() -> None:
    code = loop("FADD R2, R3, R4", "@P0 BRA `(.L_x_1)")
    assert trip_counts(code, WorkCounts(4, LineCounts(None), ()), warps=4) == [1]
