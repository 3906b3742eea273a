"""The model of GPU times by machine code: loops and their turns, and what makes a launch longer."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ttools.core.gpus.devices import read_device

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import gpu_time_model as model  # noqa: E402
from machine_code import count_turns, read  # noqa: E402

sys.path.remove(str(BENCHMARKS))


def listing(*body: str, before: str = "MOV R1, RZ") -> str:
    lines = ['\t//## File "kernel.py", line 7', f"        /*0000*/   {before} ;", ".L_x_1:"]
    lines += [f"        /*{16 * n:04x}*/   {each} ;" for n, each in enumerate(body, 1)]
    return "\n".join([*lines, "        /*0ff0*/   EXIT ;"])


def counted(**counts: Any) -> dict[str, Any]:
    each = {"loaded": 0, "stored": 0, "atomic": 0, "lanes": 0, "masked_off": 0, "operations": {}}
    return {"line": ["kernel.py", 7], **each, **counts}


@pytest.mark.parametrize(
    ("before", "step", "bound", "turns"),
    [
        ("MOV R1, RZ", "0x4", "0x40", 16),
        ("UMOV R1, 0x40", "-0x8", "RZ", 8),
        ("MOV R1, 0x10", "0x10", "0x100", 15),
    ],
)
def test_loops_that_count_by_constants(before: str, step: str, bound: str, turns: int) -> None:
    body = (
        f"IADD3 R1, R1, {step}, RZ",
        "FFMA R2, R3, R4, R2",
        f"ISETP.NE.AND P0, PT, R1, {bound}, PT",
        "@P0 BRA `(.L_x_1)",
    )
    code = read(listing(*body, before=before))
    count_turns(code, [], programs=1, warps=4)
    executed = {instruction.name: times for instruction, times in code.executed()}
    assert executed["FFMA"] == turns
    assert executed["EXIT"] == executed[before.split()[0]] == 1


def test_copies_of_a_body_are_turns_less() -> None:
    body = (*["FFMA R2, R3, R4, R2"] * 6, "@P0 BRA `(.L_x_1)")
    code = read(listing(*body))
    # Of each of 96 iterations in 10 programs: one fused operation for each of 128 lanes.
    lines = [counted(executions=960, operations={"fp32": 960 * 2 * 128})]
    count_turns(code, lines, programs=10, warps=4)
    assert code.loops[0].turns == 96 / 6


def test_loads_tell_copies_too() -> None:
    body = (*["LDG.E.128 R4, desc[UR6][R2.64]"] * 2, "MUFU.EX2 R8, R4", "@P0 BRA `(.L_x_1)")
    code = read(listing(*body))
    each = {"lanes": 40 * 512, "masked_off": 40 * 128, "loaded": 40 * 384 * 4}
    lines = [counted(executions=40, **each, operations={"fp32": 1, "function": 40 * 512})]
    count_turns(code, lines, programs=1, warps=4)
    assert code.loops[0].turns == 40 / 2


@pytest.fixture(scope="module")
def launches() -> list[model.Launch]:
    with gzip.open(BENCHMARKS / "points" / "h100.json.gz", "rt") as file:
        points = json.load(file)["points"]
    return [model.launch_of(each, read_device("h100")) for each in points]


def test_points_are_of_many_kernels(launches: list[model.Launch]) -> None:
    assert len({each.kernel for each in launches}) >= 40
    assert all(each.seconds > 0 and each.executed for each in launches)


def test_more_work_never_takes_less_time(launches: list[model.Launch]) -> None:
    for each in launches:
        base = model.seconds_of(each, model.BEGIN)
        assert base >= model.BEGIN["least"]
        for name in ("shared", "batches", "touched", "sectors", "requested", "matrix"):
            more = replace(each, **{name: getattr(each, name) * 1.5 + 1e-6})
            assert model.seconds_of(more, model.BEGIN) >= base, (each.kernel, name)
        for unit in each.executed:
            slower = replace(each, executed={**each.executed, unit: each.executed[unit] * 2})
            assert model.seconds_of(slower, model.BEGIN) >= base, (each.kernel, unit)


def test_fitting_comes_nearer(launches: list[model.Launch]) -> None:
    some = launches[::8]

    def error(constants: Any) -> float:
        ratios = (model.seconds_of(each, constants) / each.seconds for each in some)
        return sum(max(ratio, 1 / ratio) for ratio in ratios)

    assert error(model.fit(some)) < error(model.BEGIN)
