"""The mix of executed instructions, and bank conflicts of shared memory."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.machine_code import MachineCode, read_machine_code
from ttools.core.location import SourceLocation
from ttools.profiler import profile
from ttools.profiler.gpu_time.instruction_mix import executed_of


def code(*instructions: str) -> MachineCode:
    lines = [
        f"        /*{16 * n:04x}*/   {instruction} ;" for n, instruction in enumerate(instructions)
    ]
    return read_machine_code("\n".join(lines))


def test_kinds_have_shares() -> None:
    mix = executed_of(
        code("IADD3 R1, R1, 0x4, RZ", "MOV R1, RZ", "FFMA R1, R2, R3, R4", "LDG.E R5, [R2.64]"), []
    )
    assert mix.mix == {"integer": 0.5, "floating point": 0.25, "global memory": 0.25}
    assert mix.conflict_share is None


def test_a_loop_counts_its_iterations() -> None:
    listing = (
        "        /*0000*/   MOV R1, RZ ;\n.L_x_1:\n        /*0010*/   FADD R2, R2, R2 ;\n"
        "        /*0020*/   @P0 BRA `(.L_x_1) ;\n        /*0030*/   EXIT ;"
    )
    mix = executed_of(read_machine_code(listing), [10.0])
    assert mix.units == {"move": 1, "float": 10, "control": 11}


@pytest.mark.parametrize(
    ("shift", "access", "turns", "conflicts"),
    [
        ("0x2", "LDS R2, [R1]", 1, 0),
        ("0x3", "LDS R2, [R1]", 2, 1),
        ("0x7", "STS [R1], R2", 32, 31),
        ("0x4", "LDS.128 R4, [R1]", 4, 0),
        ("0x5", "LDS.128 R4, [R1]", 8, 4),
    ],
)
def test_conflicts_are_wavefronts_beyond_the_minimum(
    shift: str, access: str, turns: int, conflicts: int
) -> None:
    mix = executed_of(code("S2R R0, SR_TID.X", f"SHF.L.U32 R1, R0, {shift}, RZ", access), [])
    assert (mix.shared, mix.conflicts) == (turns, {None: conflicts} if conflicts else {})
    assert mix.conflict_share == conflicts / turns


@triton.jit
def product_kernel(x, y, z, K, BLOCK: tl.constexpr):
    a = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        columns = tl.load(x + a[:, None] * K + (k + a)[None, :])
        right = tl.load(y + (k + a)[:, None] * BLOCK + a[None, :])
        sums = tl.dot(columns, right, sums)
    tl.store(z + a[:, None] * BLOCK + a[None, :], sums)


def test_the_frame_of_a_profile_has_them() -> None:
    x, y, z = torch.ones(32, 256).half(), torch.ones(256, 32).half(), torch.empty(32, 32)
    with profile(target="sm_80", line_times=False) as prof:
        product_kernel[(1,)](x, y, z, 256, BLOCK=32)
    (row,) = prof.analyse().frame.to_dict("records")
    mix = row["instruction_mix"]
    assert sum(mix.values()) == pytest.approx(1.0)
    assert {"matrix", "shared memory", "global memory", "integer"} <= mix.keys()
    assert list(mix.values()) == sorted(mix.values(), reverse=True)
    assert 0 <= row["bank_conflicts"] < 1
    assert sum(row["bank_conflict_lines"].values()) <= row["bank_conflicts"]


def test_conflicts_are_reported_by_line() -> None:
    place = '//## File "/folder/k.py", line {}'
    listing = [
        "        /*0000*/   S2R R0, SR_TID.X ;",
        "        /*0010*/   SHF.L.U32 R1, R0, 0x3, RZ ;",
        place.format(7),
        "        /*0020*/   LDS R2, [R1] ;",
        place.format(9),
        "        /*0030*/   SHF.L.U32 R1, R0, 0x7, RZ ;",
        "        /*0040*/   STS [R1], R2 ;",
    ]
    mix = executed_of(read_machine_code("\n".join(listing)), [])
    assert mix.conflict_lines == {"k.py:9": 31 / 34, "k.py:7": 1 / 34}
    assert list(mix.conflict_lines) == ["k.py:9", "k.py:7"]


def test_conflicts_in_library_functions_belong_to_the_line_that_calls_them() -> None:
    library = inspect.getfile(tl.standard)
    listing = [
        "        /*0000*/   S2R R0, SR_TID.X ;",
        "        /*0010*/   SHF.L.U32 R1, R0, 0x3, RZ ;",
        f'//## File "{library}", line 287 inlined at "{library}", line 314',
        f'//## File "{library}", line 314 inlined at "/folder/k.py", line 9',
        '//## File "/folder/k.py", line 9',
        "        /*0020*/   LDS R2, [R1] ;",
    ]
    code = read_machine_code("\n".join(listing))
    assert code.instructions[-1].line == ("standard.py", 287)
    assert list(executed_of(code, []).conflict_lines) == ["k.py:9"]
    (*_, last) = annotate("sass", "\n".join(listing))
    assert last.location == SourceLocation(library, 287, 0)
