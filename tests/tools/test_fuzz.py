"""The fuzzing campaign: its tables, files and exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tools.fuzz.__main__ import _parser, main
from tools.fuzz.report import Campaign, markdown

from ttools.fuzz.trial import Failure, Verdict

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fuzzing.md"


def _campaign(*failures: Failure) -> Campaign:
    campaign = Campaign(command="python -m tools.fuzz", cpu="x86-64-v3")
    campaign.add(Verdict(7, ("native", "opt 0"), (), 0.5))
    campaign.add(Verdict(9, ("native",), failures, 0.5))
    return campaign


def test_tables_of_a_campaign() -> None:
    campaign = _campaign(Failure(9, "wrong", "native", "out1[0] is 1, expected 0"))
    lines = markdown(campaign).splitlines()
    assert "| target | x86-64-v3 |" in lines
    assert "| kernels | 2, of which Triton refused 0 |" in lines
    assert "| launches | 3 |" in lines
    assert "| seeds | 7 to 9 |" in lines
    assert "| failures | 1 wrong |" in lines
    assert "| native | 2 | 1 |" in lines
    assert campaign.failed


def test_kernels_that_triton_refuses_are_counted_but_no_failures() -> None:
    campaign = _campaign(Failure(9, "rejected", "native", "CompilationError"))
    assert campaign.rejected == 1
    assert not campaign.failed
    assert not campaign.causes(5)


def test_a_difference_of_the_gpu_alone_is_no_failure() -> None:
    assert not _campaign(Failure(9, "gpu only", "three ways", "out1[0]")).failed
    assert _campaign(Failure(9, "engine only", "three ways", "out1[0]")).failed


def test_each_cause_is_shrunk_once() -> None:
    same = [Failure(seed, "error", "native", f"no such operation %{seed}") for seed in (1, 2)]
    same_cause = Failure(3, "crash", "native", "SIGABRT")
    assert _campaign(*same, same_cause).causes(5) == [same[0], same_cause]
    assert _campaign(*same, same_cause).causes(1) == [same[0]]


def test_each_kernel_writes_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, table = tmp_path / "results.jsonl", tmp_path / "table.md"
    arguments = [
        "--in-process",
        "--kernels",
        "2",
        "--per-kernel",
        "2",
        "--variants",
        "materialised",
    ]
    status = main([*arguments, "--results", str(results), "--markdown", str(table)])
    assert status == 0
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [line["seed"] for line in lines] == [0, 1]
    assert all(line["variants"] == ["native", "materialised"] for line in lines)
    assert table.read_text() in capsys.readouterr().out


def test_a_device_that_replaces_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--in-process", "--gpu", "--device", "cpu", "--kernels", "2"]) == 0
    assert "| gpu | 2 | 0 |" in capsys.readouterr().out


def test_a_kernel_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--print"]) == 0
    assert "def kernel(" in capsys.readouterr().out


def test_the_page_names_every_option() -> None:
    described = set(re.findall(r"(--[a-z][a-z-]+)", PAGE.read_text()))
    options = {name for action in _parser()._actions for name in action.option_strings}
    assert {name for name in options if name.startswith("--")} - {"--help"} <= described
