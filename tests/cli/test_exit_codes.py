"""The exit statuses in the code are those in the reference documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ttools.cli import exit_codes
from ttools.core.errors import KernelError, TtoolsError, UsageError

_REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_reference_lists_every_status() -> None:
    section = _REFERENCE.read_text().partition("\n## Exit status\n")[2].partition("\n## ")[0]
    listed = {int(row) for row in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    own = {value for name, value in vars(exit_codes).items() if name.isupper() and name[0] != "_"}
    assert listed == {value for value in own if isinstance(value, int)}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("x"), exit_codes.USAGE),
        (KernelError("x"), exit_codes.FINDINGS),
        (TtoolsError("x"), exit_codes.TOOL_FAILURE),
    ],
)
def test_errors_have_a_status(error: TtoolsError, status: int) -> None:
    assert exit_codes.of_error(error) == status
