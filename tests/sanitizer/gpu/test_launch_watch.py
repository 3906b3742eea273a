"""All launches of a process are logged; a CPU device replaces the GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core import triton_versions
from ttools.sanitizer.gpu.launch_log import LogWriter
from ttools.sanitizer.gpu.launch_watch import RunLogger


@triton.jit
def fill(out, value, size: tl.constexpr):
    tl.store(out + tl.arange(0, size), value)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with RunLogger(LogWriter(tmp_path)).install():
        yield tmp_path


def entries(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of the log."""
    return [json.loads(line) for line in (folder / "launches.jsonl").read_text().splitlines()]


def test_a_launch_is_logged_with_its_arguments_and_line(folder: Path) -> None:
    fill[(2,)](torch.zeros(8), 5.0, size=8)
    (entry,) = entries(folder)
    assert (entry["kernel"], entry["grid"], entry["config"]) == ("fill", [2, 1, 1], None)
    assert entry["line"].startswith(__file__)
    out, value, size = entry["arguments"]
    assert (out["name"], out["shape"]) == ("out", [8])
    assert (value["value"], size["value"]) == (5.0, 8)


def test_each_trial_of_an_autotuner_runs_once(folder: Path) -> None:
    configs = [triton.Config({"size": 4}), triton.Config({"size": 8})]
    triton.autotune(configs, key=[])(fill)[(1,)](torch.zeros(8), 6.0)
    sizes = [entry["config"]["size"] for entry in entries(folder)]
    assert sizes[:2] == [4, 8]
    assert len(sizes) == 3  # the trials of both configurations, and the launch with the better one


def test_a_failing_log_does_not_affect_the_program(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> int:
        raise OSError("no room")

    monkeypatch.setattr(LogWriter, "launch", fail)
    out = torch.zeros(8)
    fill[(1,)](out, 5.0, size=8)
    assert out.tolist() == [5.0] * 8
    assert "a launch could not be logged: OSError: no room" in str(entries(folder))


def test_nothing_is_logged_after_the_end(tmp_path: Path) -> None:
    run = triton_versions.jit_function_class().run
    log = LogWriter(tmp_path)
    with RunLogger(log).install():
        assert triton_versions.jit_function_class().run is not run
    assert triton_versions.jit_function_class().run is run
