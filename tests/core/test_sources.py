"""Fingerprints of packages, and that caches of compiled kernels are keyed by them."""

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
def test_a_change_anywhere_in_the_package_shows(package: Path, name: str) -> None:
    before = fingerprint.__wrapped__(package.name)
    assert fingerprint.__wrapped__(package.name) == before
    (package / "notes.md").write_text("not a source")
    assert fingerprint.__wrapped__(package.name) == before
    (package / name).write_text("# changed")
    assert fingerprint.__wrapped__(package.name) != before


def test_a_change_of_the_same_size_shows(package: Path) -> None:
    before = fingerprint.__wrapped__(package.name)
    os.utime(package / "inner" / "code.py", ns=(1, 1))
    assert fingerprint.__wrapped__(package.name) != before


@pytest.mark.parametrize("name", ["ttools.interpreter", "ttools.sanitizer", "ttools.watch"])
def test_what_produces_code_is_covered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rooms of the package, whatever file asks for the fingerprint."""
    (root,) = import_module(name).__path__
    looked_at: list[Path] = []
    stat = Path.stat

    def noted(self: Path, **options: bool) -> os.stat_result:
        looked_at.append(self)
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", noted)
    fingerprint.__wrapped__(name)
    rooms = {path.relative_to(root).parts[0] for path in looked_at if Path(root) in path.parents}
    wanted = {
        "ttools.interpreter": {"emit", "elementwise", "analysis", "schedule", "tiles", "llvm"},
        "ttools.sanitizer": {"passes", "analysis", "hints", "checks"},
        "ttools.profiler": {"counting"},
        "ttools.watch": {"variables", "record"},
    }
    assert wanted[name] <= rooms
