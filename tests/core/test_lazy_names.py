"""Tests of public names that are imported on first use, or have moved to another package."""

from __future__ import annotations

import pytest

import ttools.prove
import ttools.sanitizer
from ttools.core.lazy_names import lazy_names


def test_names_come_from_their_modules() -> None:
    find = lazy_names("ttools.core", {"lazy_names": "lazy_names", "errors": ""})
    assert find("lazy_names") is lazy_names
    assert find("errors").__name__ == "ttools.core.errors"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"module 'ttools\.core' has no attribute 'absent'"):
        find("absent")


@pytest.mark.parametrize("name", ["check_sizes", "SizesResult"])
def test_a_name_that_has_moved_warns_and_works(name: str) -> None:
    text = rf"ttools\.sanitizer\.{name} has moved: .* ttools\.prove\.{name}"
    with pytest.warns(DeprecationWarning, match=text) as warned:
        old = getattr(ttools.sanitizer, name)
    assert old is getattr(ttools.prove, name)
    assert warned[0].filename == __file__
