"""The members' metadata agree with each other and with what the documents say."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).parents[2]
MEMBERS = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
# Layers, lowest first: a member may depend only on those before its own.
LAYERS = (
    ("core",),
    ("interpreter",),
    ("profiler", "sanitizer", "watch"),
    ("tuner", "fuzz", "verifier"),
    ("cli",),
)


def project(member: str) -> dict[str, Any]:
    """Reads a member's [project] table."""
    text = (ROOT / "packages" / member / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


def test_members_are_those_of_the_layers() -> None:
    assert sorted(member for layer in LAYERS for member in layer) == MEMBERS


@pytest.mark.parametrize("member", MEMBERS)
def test_name_version_and_pins_agree(member: str) -> None:
    table = project(member)
    assert table["name"] == f"ttools-{member}"
    assert table["license"] == "MIT"
    assert table["version"] == project("core")["version"]
    assert table["requires-python"] == ">=3.10"
    depth = next(index for index, layer in enumerate(LAYERS) if member in layer)
    lower = {name for layer in LAYERS[:depth] for name in layer}
    for requirement in table["dependencies"]:
        if found := re.fullmatch(r"ttools-(\w+)==(.+)", requirement):
            assert found[1] in lower
            assert found[2] == table["version"]
        else:
            assert not requirement.startswith("ttools")


@pytest.mark.parametrize("member", MEMBERS)
def test_imported_members_are_dependencies(member: str) -> None:
    sources = (ROOT / "packages" / member / "src").rglob("*.py")
    imports = re.compile(r"^\s*(?:from|import) ttools\.(\w+)", re.MULTILINE)
    used = {name for source in sources for name in imports.findall(source.read_text("utf-8"))}
    declared = " ".join(project(member)["dependencies"])
    for name in used - {member}:
        assert f"ttools-{name}==" in declared, f"{member} imports ttools.{name}"


def test_no_document_installs_the_unrelated_distribution() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/**/*.md")]
    assert documents
    for document in documents:
        bad = re.search(r"pip3? install [^\n`]*\bttools(?![-\w])", document.read_text("utf-8"))
        assert bad is None, f"{document}: `{bad[0]}` installs a stranger's package"
