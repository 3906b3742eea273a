"""Fixtures of the tests of reports: a report that uses every field, and golden files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.specs import tensor_argument

from ttools.core.findings.findings import Finding, Related, TallyEntry
from ttools.core.findings.suppressions import Suppressed
from ttools.core.location import SourceLocation
from ttools.core.reports.report import Report, Rule
from ttools.core.reports.tensor_map import TOUCH, fold
from ttools.core.spec import ArgumentSpec, CallSite, LaunchSpec

GOLDENS = Path(__file__).parent / "goldens"

SOURCE = """\
@triton.jit
def helper(p, o):
    return tl.load(p + o)


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    é = "<b>é & co</b>"; tl.store(y_ptr + offs % 64, x)
    for i in range(n):
        x += helper(x_ptr, offs + i)
    tl.atomic_add(
        y_ptr + offs,
        x,
    )
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE, "utf-8")
    return str(path)


def column(line: int, text: str) -> int:
    """Return the column of a text in a line of the source, in bytes from 1, like Triton's."""
    before, match, _ = SOURCE.splitlines()[line - 1].partition(text)
    assert match
    return len(before.encode()) + 1


@pytest.fixture
def report(tmp_path: Path, source: str) -> Report:
    def at(line: int, text: str, *callers: SourceLocation) -> SourceLocation:
        return SourceLocation(source, line, column(line, text), callers=callers)

    x_ptr = tensor_argument(
        "x_ptr", dtype="float32", shape=(4000,), strides=(1,), storage_bytes=16000
    )
    y_ptr = tensor_argument(
        "y_ptr", dtype="bfloat16", shape=(8, 16), strides=(40, 1), offset=5, storage_bytes=4096
    )
    load = Finding(
        kind="oob_load",
        check="memcheck",
        severity="error",
        message="out-of-bounds load of 4 bytes from `x_ptr`",
        kernel="kernel",
        argument=x_ptr,
        location=at(9, "tl.load"),
        program=(3, 0, 0),
        lane=(1000,),
        shape=(1024,),
        variables=(("offs", "4072"), ("mask", "none")),
        notes=("the access is 288 bytes past its end",),
        count=24,
        programs=1,
        launch=f"{tmp_path / 'bench.py'}:40",
        help="mask the load with `offs < n`",
    )
    race = Finding(
        kind="overlapping_store",
        check="racecheck",
        severity="error",
        message="programs store different values to the same element of `y_ptr`",
        kernel="kernel",
        argument=y_ptr,
        location=at(10, "tl.store"),
        program=(1, 0, 0),
        lane=(3,),
        shape=(64,),
        notes=("element [0, 3] gets 1.0 and 2.0", "nothing orders the two"),
        count=2048,
        programs=32,
        related=(
            Related(message="also stored here", location=at(10, "tl.store"), program=(0, 0, 0)),
            Related(message="read here", location=at(9, "tl.load"), lane=(2,), iteration=(1,)),
        ),
        config={"BLOCK": 64, "num_warps": 4},
        other_configs=tuple({"BLOCK": block} for block in (1, 2, 4, 8, 16, 32, 128)),
    )
    inlined = Finding(
        kind="view_oob",
        check="memcheck",
        severity="warning",
        message="load leaves the elements of `x_ptr`: 100% of <a>, [b]\nand more",
        kernel="kernel",
        argument=ArgumentSpec(name="x_ptr"),
        location=at(3, "tl.load", at(12, "helper")),
        program=(0, 2, 0),
        lane=(1, 2),
        shape=(4, 8),
        iteration=(5,),
    )
    deadlock = Finding(
        kind="deadlock",
        check="deadlock",
        severity="note",
        message="programs need not run at once",
        kernel="other",
        iteration=(5, 1),
        count=7,
        programs=3,
    )
    hidden = Suppressed(finding=load, by="file", reason="padded by the caller")
    touches = [
        (0, 64, 0, True),
        (48, 100, 1, True),
        (100, 128, 2, False),
        (100, 128, 3, False),
    ]
    return Report(
        findings=(load, race, inlined, deadlock),
        launches=(
            TallyEntry(
                spec=LaunchSpec(kernel="kernel", grid=(4, 1, 1), site=CallSite(line="b.py:4")),
                count=16,
                seconds=0.25,
            ),
            TallyEntry(
                spec=LaunchSpec(kernel="other", grid=(1, 2, 3), site=CallSite(config={"BLOCK": 64}))
            ),
            TallyEntry(spec=LaunchSpec(kernel="idle", grid=(1, 1, 1))),
        ),
        suppressed=(hidden,),
        maps=(fold("kernel", y_ptr, 200, np.array(touches, TOUCH)),),
        target="bench.py --size 4000",
        exit_code=0,
        root=tmp_path,
        rules={
            "oob_load": Rule(
                "A load reads outside the storage its pointer derives from.",
                "mask the load",
                "reference/findings.md#memory-bounds",
            ),
            "overlapping_store": Rule(
                "Programs, or lanes of one store, write the same element unordered."
            ),
            "view_oob": Rule(
                "An access stays in the storage but leaves the elements of the view passed."
            ),
            "deadlock": Rule("Programs wait for each other, or for one that need not be running."),
        },
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], None]:
    """Return a function that compares a text with a golden file; `--update-goldens` writes it."""

    def check(name: str, text: str) -> None:
        text = text.replace(str(tmp_path), "/ROOT")
        path = GOLDENS / name
        if request.config.getoption("--update-goldens"):
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8")

    return check
