"""`ttools cache` shows the cached files of ttools and removes only these."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def shown(result: subprocess.CompletedProcess[str]) -> dict[str, dict[str, object]]:
    return {row["what"]: row for row in json.loads(result.stdout)["caches"]}


def test_show_and_clear(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\ndef k(x): tl.store(x + tl.arange(0, 8), 1.0)\n"
        "k[(1,)](torch.empty(8))\n"
    )
    folder = tmp_path / "kept"
    where = {"TTOOLS_CACHE_DIR": str(folder)}
    assert ttools("interpret", "k.py", **where).returncode == 0
    (folder / "tunings.sqlite").write_text("measured")
    (folder / "objects" / "mine.txt").write_text("not ours")
    before = shown(ttools("cache", "show", "--format", "json", **where))
    kept = before["compiled kernels"]["files"]
    assert kept == len(list((folder / "objects").glob("*.ttobj"))) > 0
    assert before["tunings"]["files"] == 1
    cleared = ttools("cache", "clear", **where)
    assert f"removed {kept} files" in cleared.stderr
    after = shown(ttools("cache", "--format", "json", **where))
    assert after["compiled kernels"]["files"] == 0
    assert after["tunings"]["files"] == 1
    assert (folder / "objects" / "mine.txt").exists()
    assert ttools("cache", "clear", "--tunings", **where).returncode == 0
    assert not (folder / "tunings.sqlite").exists()


def test_an_unknown_action(called_ttools: Run) -> None:
    result = called_ttools("cache", "wipe")
    assert result.returncode == 2
    assert "wipe" in result.stderr


def test_an_empty_cache(called_ttools: Run, tmp_path: Path) -> None:
    result = called_ttools("cache", TTOOLS_CACHE_DIR=str(tmp_path / "none"))
    assert result.returncode == 0
    assert "compiled kernels" in result.stdout
