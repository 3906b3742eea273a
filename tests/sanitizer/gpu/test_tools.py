"""Assignment of checks to the tools of compute-sanitizer."""

from __future__ import annotations

import pytest

from ttools.core.errors import UsageError
from ttools.sanitizer.checks.registry import parse_checks
from ttools.sanitizer.gpu.tools import tools_for


@pytest.mark.parametrize(
    ("checks", "names", "left"),
    [
        ("default", "memcheck racecheck initcheck synccheck", None),
        ("all", "memcheck racecheck initcheck synccheck", None),
        ("asan", "memcheck", None),
        ("synccheck", "synccheck", None),
        ("racecheck,deadlock", "racecheck synccheck", None),
        (
            "initcheck,hints,numeric",
            "initcheck",
            "`hints` and `numeric`: available on the CPU only",
        ),
    ],
)
def test_tools_of_checks(checks: str, names: str, left: str | None) -> None:
    tools, sentence = tools_for(parse_checks([checks]))
    assert " ".join(tool.name for tool in tools) == names
    assert sentence == left


def test_checks_that_only_run_on_the_cpu() -> None:
    with pytest.raises(
        UsageError, match="not available on a GPU: `overflow`; choose from memcheck, "
    ):
        tools_for(parse_checks(["overflow"]))
