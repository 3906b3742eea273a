"""Advice on out-of-bounds accesses that depends on the source of the access."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttools.core.location import SourceLocation
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.region import Region
from ttools.sanitizer.checks.bounds_help import Outside, bounds_help

_SHAPE = "a block pointer checks only its own shape: give it the tensor's shape"


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (
            "tl.load(block, boundary_check=(0,))",
            (
                "`boundary_check` leaves out axis 1: pass `boundary_check=(0, 1)`, and give the "
                "block pointer the tensor's shape"
            ),
        ),
        (
            "tl.load(block, boundary_check=[])",
            (
                "`boundary_check` leaves out axes 0, 1: pass `boundary_check=(0, 1)`, and give the "
                "block pointer the tensor's shape"
            ),
        ),
        ("tl.load(block, boundary_check=(1, 0)).to(tl.float32)", _SHAPE),
    ],
)
@pytest.mark.parametrize("column", [9, 17])
def test_an_access_through_a_block_pointer(
    call: str, advice: str, column: int, tmp_path: Path
) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(f"def kernel(block):\n    x = {call}\n")
    site = ProbeSite(
        kind="load",
        operation=0,
        location=SourceLocation(str(file), 2, column),
        size=4,
        shape=(16, 16),
        lanes=((), ()),
        width=256,
        parameter=0,
        masked=True,
    )
    assert bounds_help(Outside(site=site, address=0)) == advice


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (-1, "`row` is -1, loaded from `table[3]`: a padding entry? Make the load only where "),
        (
            -241307748,
            "`row` is -241307748, loaded from `table[3]`: correct the contents of `table`",
        ),
    ],
)
def test_a_negative_index_from_a_table(value: int, advice: str) -> None:
    site = ProbeSite("load", 0, None, 4, (), (), 1, 0)
    memory = (4096, 8192)
    outside = Outside(
        site=site,
        address=0,
        region=Region(memory, memory),
        table="table",
        index="row",
        element=(3, value),
    )
    assert bounds_help(outside).startswith(advice)
