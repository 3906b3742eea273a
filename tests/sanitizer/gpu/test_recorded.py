"""Findings from reports that compute-sanitizer printed on an H100; see `record.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttools.core.reports.report import Report
from ttools.core.reports.text import write
from ttools.sanitizer.gpu.findings import gpu_findings
from ttools.sanitizer.gpu.launch_log import REPORT, read_log
from ttools.sanitizer.gpu.output import read_output
from ttools.sanitizer.gpu.tools import TOOLS

RECORDED = sorted(path for path in (Path(__file__).parent / "recorded").iterdir() if path.is_dir())
GOLDENS = Path(__file__).parent / "goldens"


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: path.name)
def test_findings_of_a_recording(folder: Path, request: pytest.FixtureRequest) -> None:
    tool = next(tool for tool in TOOLS if tool.name == folder.name.partition("-")[0])
    output, log = read_output((folder / REPORT).read_bytes()), read_log(folder)
    assert output.remarks == []
    findings = gpu_findings(output.records, log.launches, tool, folder, lambda name: True)
    text = write(Report(findings=tuple(findings), root=Path("{here}")))
    golden = GOLDENS / f"{folder.name}.txt"
    if request.config.getoption("--update-goldens"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


def test_every_case_is_recorded() -> None:
    assert len(RECORDED) == 15
