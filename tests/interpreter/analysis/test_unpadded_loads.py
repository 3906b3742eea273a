"""Tests of finding block-pointer loads whose out-of-bounds lanes are undefined."""

from __future__ import annotations

import pytest

from ttools.interpreter.analysis.ttir_comments import comment, with_comment
from ttools.interpreter.analysis.unpadded_loads import unpadded_loads, with_unpadded_loads

FINAL = "module {\n}\n"


def module_with_load(attributes: str, *, first_column: int = 1) -> str:
    """Return a module with one load, as Triton 3.6 prints it.

    Args:
        attributes: Attributes of the load.
        first_column: Column of the function, by which the reader knows whether columns count from 0
            or 1.
    """
    return f"""module {{
  tt.func public @k(%p: !tt.ptr<tensor<16x16xf32>>) {{
    %x = tt.load %p{attributes} : !tt.ptr<tensor<16x16xf32>> loc(#loc2)
    tt.return loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc = loc("a \\"b\\".py":3:{first_column})
#loc1 = loc("a \\"b\\".py":8:20)
#loc2 = loc("x"(#loc1))
"""


@pytest.mark.parametrize(
    ("attributes", "is_unpadded"),
    [
        (" {boundaryCheck = array<i32: 0, 1>}", True),
        (" {boundaryCheck = array<i32: 1>, isVolatile = true}", True),
        (" evictionPolicy = evict_last {boundaryCheck = array<i32: 0>}", True),
        (" {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32}", False),
        (" {boundaryCheck = array<i32>}", False),
        (" {isVolatile = true}", False),
        ("", False),
    ],
)
def test_loads_with_bounds_checks_and_without_padding(attributes: str, is_unpadded: bool) -> None:
    text = with_unpadded_loads(FINAL, module_with_load(attributes))
    assert unpadded_loads(text) == ({('a "b".py', 8, 20)} if is_unpadded else set())
    assert text.startswith(FINAL)


def test_columns_are_counted_from_one() -> None:
    source = module_with_load(" {boundaryCheck = array<i32: 0>}", first_column=0)
    assert unpadded_loads(with_unpadded_loads(FINAL, source)) == {('a "b".py', 8, 21)}


def test_comments_with_different_names_are_independent() -> None:
    text = with_comment(with_comment(FINAL, "ones", [["\n]", 1]]), "twos", [2])
    assert (comment(text, "ones"), comment(text, "twos")) == ([["\n]", 1]], [2])
    assert comment(text, "threes") == []
    assert with_comment(text, "threes", []) == text
