"""Tests of which tiles are checked as a whole, with the same results as checks of their chunks."""

from __future__ import annotations

import dataclasses

import pytest
from access_forms import FORMS, Form
from test_guards import CUTS, check

from ttools.interpreter.emit.instruments import whole_tile
from ttools.interpreter.emit.instruments.whole_tile import Hull, tile_hull

#: Patterns with a hull (bounds of the whole tile), and whether a mask makes the hull smaller.
WHOLE = {
    **dict.fromkeys(("contiguous", "strided", "backwards", "tile", "tile_transposed"), False),
    **dict.fromkeys(("runtime_stride", "tile_of_rows", "tile_mixed_signs", "grid"), False),
    **dict.fromkeys(("tail", "no_lane_active", "before", "tile_masked"), True),
    "tile_gapped_columns": True,
}
WRAPPING = ("wrapped_back", "tile_wrapped_back", "wrapped")
APART = ("gather", "gather_masked", "modulo", "halves")


def hulls_of(
    form: Form, monkeypatch: pytest.MonkeyPatch, *, apart: bool = False
) -> list[Hull | None]:
    """Compare the accesses of a pattern with NumPy, and return their hulls.

    Args:
        form: Pattern of accesses.
        monkeypatch: Fixture of pytest.
        apart: If True, check each chunk even if the tile has a hull.
    """
    hulls: list[Hull | None] = []

    def log_hull(*arguments: object) -> Hull | None:
        hulls.append(tile_hull(*arguments))  # type: ignore[arg-type]
        return None if apart else hulls[-1]

    monkeypatch.setattr(whole_tile, "tile_hull", log_hull)
    # A different text prevents the use of a compiled kernel.
    form = dataclasses.replace(form, index=f"{form.index} + {17 + apart} * 0")
    for access in ("load", "atomic"):
        check(form, access, CUTS[1])
    return hulls


@pytest.mark.parametrize("name", WHOLE)
def test_patterns_with_a_hull(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hulls = hulls_of(FORMS[name], monkeypatch)
    assert hulls
    # The hulls include those of the stores of loaded values to `out`, which have no mask.
    assert all(hull is not None for hull in hulls)
    assert any(hull is not None and hull.idle is not None for hull in hulls) == WHOLE[name]


@pytest.mark.parametrize("name", WRAPPING)
def test_patterns_that_may_wrap_have_a_guard(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hulls = hulls_of(FORMS[name], monkeypatch)
    assert any(hull is not None and hull.guard is not None for hull in hulls)


@pytest.mark.parametrize("name", APART)
def test_patterns_without_a_hull(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert None in hulls_of(FORMS[name], monkeypatch)


@pytest.mark.parametrize("name", ["tail", "tile_masked", "wrapped_back"])
def test_checks_of_chunks_have_the_same_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hulls_of(FORMS[name], monkeypatch, apart=True)
