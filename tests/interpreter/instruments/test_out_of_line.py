"""Seldom code does the same in functions of its own as in its place."""

from __future__ import annotations

import dataclasses

import pytest
from access_forms import FORMS
from test_guards import CUTS, check

from ttools.interpreter.emit import out_of_line

_FORMS = ("scalar_masked", "tail", "gather_masked", "wrapped_back")


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", _FORMS)
def test_guards_judge_alike(name: str, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    parameters = out_of_line._parameters

    def told(*arguments: object) -> object:
        calls.append(parameters(*arguments) if apart else None)  # type: ignore[arg-type]
        return calls[-1]

    monkeypatch.setattr(out_of_line, "_parameters", told)
    # A text of its own, of which nothing has been compiled.
    form = dataclasses.replace(FORMS[name], index=f"{FORMS[name].index} + {int(apart)} * 0")
    for access in ("load", "atomic"):
        check(form, access, CUTS[1])
    assert calls
    assert all(found is not None for found in calls) == apart
