"""The metadata of the members agree with each other and with the documentation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.release import version, with_urls, with_version

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).parents[2]
#: The distribution that depends on all others and has no code.
WHOLE = "triton-ttools"
ALL = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
MEMBERS = [name for name in ALL if name != WHOLE]
# Layers from the lowest: a member may depend only on members of lower layers.
LAYERS = (
    ("core",),
    ("ir",),
    ("interpreter",),
    ("profiler", "sanitizer", "watch"),
    ("prove",),
    ("tuner", "fuzz", "verifier"),
    ("cli",),
)


def project(member: str) -> dict[str, Any]:
    """Return the [project] table of a member."""
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
        if match := re.fullmatch(r"ttools-(\w+)==(.+)", requirement):
            assert match[1] in lower
            assert match[2] == table["version"]
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


def test_the_whole_requires_all_members_of_its_version() -> None:
    table = project(WHOLE)
    assert table["name"] == WHOLE
    assert table["version"] == project("core")["version"] == version()
    assert table["dependencies"] == [f"ttools-{name}=={table['version']}" for name in MEMBERS]
    for name, requirements in table["optional-dependencies"].items():
        for requirement in requirements:
            match = re.fullmatch(rf"ttools-(\w+)\[{name}\]=={table['version']}", requirement)
            assert match is not None
            assert name in project(match[1])["optional-dependencies"]
    assert table["scripts"]["ttools"] == project("cli")["scripts"]["ttools"]


@pytest.mark.parametrize("member", ALL)
def test_metadata_is_complete(member: str) -> None:
    table, folder = project(member), ROOT / "packages" / member
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (folder / table["readme"]).read_text().startswith(f"# {table['name']}\n")
    assert {"authors", "classifiers", "keywords", "license-files"} <= table.keys()


@pytest.mark.parametrize("member", ALL)
def test_another_version_and_links_are_written(member: str) -> None:
    text = (ROOT / "packages" / member / "pyproject.toml").read_text(encoding="utf-8")
    changed = with_urls(
        with_urls(with_version(text, "9.8.7"), "https://a.example/b"), "https://c/d/"
    )
    table = tomllib.loads(changed)["project"]
    assert table.pop("urls")["Issues"] == "https://c/d/issues"
    named = str(table)
    assert table["version"] == "9.8.7"
    assert f"=={version()}" not in named
    assert named.count("==9.8.7") == text.count(f"=={version()}")
    assert tomllib.loads(changed)["tool"] == tomllib.loads(text)["tool"]


def test_no_document_installs_the_unrelated_distribution() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/**/*.md")]
    assert documents
    for document in documents:
        bad = re.search(
            r"pip3? install [^\n`]*(?<![-\w])ttools(?![-\w])", document.read_text("utf-8")
        )
        assert bad is None, f"{document}: `{bad[0]}` installs an unrelated package"


def test_documents_that_install_members_install_all_of_them() -> None:
    lists = [
        set(re.findall(r"(?<=\./packages/)[\w-]+", command))
        for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
        for command in re.findall(
            r"pip3? install (?:[^\n]*\\\n)*[^\n]*\./packages/[^\n]*", document.read_text("utf-8")
        )
    ]
    assert lists
    assert lists == [set(ALL)] * len(lists)
