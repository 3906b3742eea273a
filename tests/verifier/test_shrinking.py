"""The inputs of a failure are reduced to small sizes and plain values."""

from __future__ import annotations

import pytest

from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case
from ttools.verifier.run.shrinking import shrunk

DOMAIN = Domain(sizes={"rows": (1, 16), "columns": (1, 64)}, choices={}, seeded=True)


def fails(case: Case) -> str | None:
    """Model a kernel that uses the gradient of the first row for all rows.

    Rows of equal gradients hide the defect. The special values make the third row differ.
    """
    needed = {"drawn": 100, "negative zeros": 3, "graded": 2}[case.values]
    return "wrong_values" if case.sizes["rows"] >= needed else None


@pytest.mark.parametrize("tries", [40, 2])
def test_values_that_all_differ_show_a_failure_at_the_smallest_size(tries: int) -> None:
    case = Case(sizes={"rows": 5, "columns": 17}, values="negative zeros")
    plainer = shrunk(case, DOMAIN, fails, tries)
    assert plainer is not None
    assert plainer[0].values == "graded"
    if tries > 2:
        assert plainer[0].sizes == {"rows": 2, "columns": 1}
