"""Tests of public names that are imported on first use, or have moved to another package."""

from __future__ import annotations

import re
from types import ModuleType

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


@pytest.mark.parametrize(
    ("package", "name", "new"),
    [
        (ttools.sanitizer, "SizesResult", "SizesResult"),
        (ttools.sanitizer, "check_sizes", "prove"),
        (ttools.prove, "check_sizes", "prove"),
    ],
)
def test_a_former_name_warns_and_works(package: ModuleType, name: str, new: str) -> None:
    text = f"{package.__name__}.{name} is now ttools.prove.{new}"
    with pytest.warns(DeprecationWarning, match=re.escape(text)) as warned:
        old = getattr(package, name)
    assert old is getattr(ttools.prove, new)
    assert [warning.filename for warning in warned] == [__file__]
