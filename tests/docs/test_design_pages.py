"""Files and modules that the design pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ttools.ir.dialects import OPERATIONS

_ROOT = Path(__file__).parents[2]
_PAGES = [_ROOT / "CONTRIBUTING.md", *sorted((_ROOT / "docs" / "design").glob("*.md"))]
_FILE = re.compile(r"(?<![\w/.<*-])((?:[a-z_]+/)+[a-z_]+\.(?:py|ll))\b")
_MODULE = re.compile(r"`(ttools(?:\.[a-z_]+)+)`")
_BARE = re.compile(r"`([a-z_]+\.(?:py|ll))`")
#: A file that must not exist, so that `ttools` is a namespace package.
_FORBIDDEN = "ttools/__init__.py"
#: Folders to which paths are relative; pages omit the path to a package.
_BEGINNINGS = (
    _ROOT,
    *_ROOT.glob("packages/*/src/ttools"),
    *_ROOT.glob("packages/*/src/ttools/*"),
    *_ROOT.glob("packages/*/src/ttools/*/*"),
)


def _exists(name: str) -> bool:
    return any((folder / name).exists() for folder in _BEGINNINGS)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = set(_FILE.findall(page.read_text())) - {_FORBIDDEN}
    assert sorted(name for name in named if not _exists(name)) == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_files_named_without_a_folder_exist(page: Path) -> None:
    named = set(_BARE.findall(page.read_text()))
    assert {name for name in named if not any(_ROOT.glob(f"packages/*/src/**/{name}"))} == set()


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_modules_that_a_page_names_exist(page: Path) -> None:
    missing = []
    for name in set(_MODULE.findall(page.read_text())) - set(OPERATIONS):
        path = name.replace(".", "/")
        candidates = [
            folder.parent / ending
            for folder in _ROOT.glob("packages/*/src/ttools")
            for ending in (path, f"{path}.py")
        ]
        if not any(candidate.exists() for candidate in candidates):
            missing.append(name)
    assert sorted(missing) == []
