"""Tests of the fingerprints of packages, which are part of the keys of compiled kernels."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from ttools.core.sources import fingerprint


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / tmp_path.name
    (root / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/__init__.py", "inner/code.py", "inner/text.ll", "notes.md"):
        (root / name).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    return root


@pytest.mark.parametrize("name", ["__init__.py", "inner/code.py", "inner/text.ll"])
def test_any_changed_file_changes_the_fingerprint(package: Path, name: str) -> None:
    before = fingerprint.__wrapped__(package.name)
    assert fingerprint.__wrapped__(package.name) == before
    (package / "notes.md").write_text("not a source")
    assert fingerprint.__wrapped__(package.name) == before
    (package / name).write_text("# changed")
    assert fingerprint.__wrapped__(package.name) != before


def test_a_change_of_the_same_size_changes_the_fingerprint(package: Path) -> None:
    before = fingerprint.__wrapped__(package.name)
    os.utime(package / "inner" / "code.py", ns=(1, 1))
    assert fingerprint.__wrapped__(package.name) != before


@pytest.mark.parametrize("name", ["ttools.interpreter", "ttools.sanitizer", "ttools.watch"])
def test_fingerprints_cover_the_folders_that_produce_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the fingerprint covers the folders of a package that produce code."""
    (root,) = import_module(name).__path__
    paths: list[Path] = []
    stat = Path.stat

    def logged_stat(self: Path, **options: bool) -> os.stat_result:
        paths.append(self)
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", logged_stat)
    fingerprint.__wrapped__(name)
    folders = {path.relative_to(root).parts[0] for path in paths if Path(root) in path.parents}
    expected = {
        "ttools.interpreter": {"emit", "elementwise", "analysis", "schedule", "tiles", "llvm"},
        "ttools.sanitizer": {"passes", "analysis", "hints", "checks"},
        "ttools.profiler": {"counting"},
        "ttools.watch": {"variables", "record"},
    }
    assert expected[name] <= folders
