"""The API reference lists every public function and class, and only existing ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
NAMED = re.findall(r"^::: (\S+)$", PAGE, re.M)
#: Packages whose members programs import.
MEMBERS = ("interpreter", "sanitizer", "watch", "profiler", "tuner", "verifier")


@pytest.mark.parametrize("member", MEMBERS)
def test_every_public_name_is_listed(member: str) -> None:
    package = import_module(f"ttools.{member}")
    offered = {f"{package.__name__}.{name}" for name in package.__all__}
    assert {name for name in NAMED if name.startswith(f"{package.__name__}.")} == offered


@pytest.mark.parametrize("name", [name for name in NAMED if name.startswith("ttools.core.")])
def test_all_listed_names_exist(name: str) -> None:
    module, _, own = name.rpartition(".")
    assert hasattr(import_module(module), own)


def test_the_site_has_all_packages_and_a_search() -> None:
    plugins = SITE["plugins"]
    assert "search" in plugins
    (reference,) = (plugin["mkdocstrings"] for plugin in plugins if "mkdocstrings" in plugin)
    paths = set(reference["handlers"]["python"]["paths"])
    assert {f"packages/{name.split('.')[1]}/src" for name in NAMED} == paths


def pages(entries: list[Any]) -> Iterator[str]:
    """Return the files of a navigation menu."""
    for entry in entries:
        for below in [entry] if isinstance(entry, str) else entry.values():
            yield from [below] if isinstance(below, str) else pages(below)


def test_every_page_is_in_the_menu_once() -> None:
    docs = ROOT / "docs"
    written = [*docs.rglob("*.md"), *docs.glob("notebooks/*.ipynb")]
    assert sorted(pages(SITE["nav"])) == sorted(str(page.relative_to(docs)) for page in written)
