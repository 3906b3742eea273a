"""Which tiles are judged as a whole, and that this does what judging their chunks does."""

from __future__ import annotations

import dataclasses

import pytest
from access_forms import FORMS, Form
from test_guards import CUTS, check

from ttools.interpreter.emit.instruments import whole_tile
from ttools.interpreter.emit.instruments.whole_tile import Hull, tile_hull

#: Forms that have a hull, and whether one that a mask makes smaller.
WHOLE = {
    **dict.fromkeys(("contiguous", "strided", "backwards", "tile", "tile_transposed"), False),
    **dict.fromkeys(("runtime_stride", "tile_of_rows", "tile_mixed_signs", "grid"), False),
    **dict.fromkeys(("tail", "no_lane_active", "before", "tile_masked"), True),
    "tile_gapped_columns": True,
}
WRAPPING = ("wrapped_back", "tile_wrapped_back", "wrapped")
APART = ("gather", "gather_masked", "modulo", "halves")


def told(form: Form, monkeypatch: pytest.MonkeyPatch, *, apart: bool = False) -> list[Hull | None]:
    """The hulls of a form's accesses, which must do what NumPy does.

    Args:
        apart: whether chunks are judged one by one all the same.
    """
    found: list[Hull | None] = []

    def tell(*arguments: object) -> Hull | None:
        found.append(tile_hull(*arguments))  # type: ignore[arg-type]
        return None if apart else found[-1]

    monkeypatch.setattr(whole_tile, "tile_hull", tell)
    # A text of its own, of which nothing has been compiled.
    form = dataclasses.replace(form, index=f"{form.index} + {17 + apart} * 0")
    for access in ("load", "atomic"):
        check(form, access, CUTS[1])
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_what_has_a_hull(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hulls = told(FORMS[name], monkeypatch)
    assert hulls
    # The stores that copy what was loaded to `out` are among them, and have no mask.
    assert all(hull is not None for hull in hulls)
    assert any(hull is not None and hull.idle is not None for hull in hulls) == WHOLE[name]


@pytest.mark.parametrize("name", WRAPPING)
def test_what_may_wrap_has_a_guard(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hulls = told(FORMS[name], monkeypatch)
    assert any(hull is not None and hull.guard is not None for hull in hulls)


@pytest.mark.parametrize("name", APART)
def test_what_has_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert None in told(FORMS[name], monkeypatch)


@pytest.mark.parametrize("name", ["tail", "tile_masked", "wrapped_back"])
def test_chunks_are_judged_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(FORMS[name], monkeypatch, apart=True)
