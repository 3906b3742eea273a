"""Reports of proofs, the function `prove`, and the pytest marker."""

from __future__ import annotations

import html
import json
import re
from functools import cache

import pytest
from tests.prove import kernels

from ttools.core.errors import UsageError
from ttools.core.findings.findings import FindingsError
from ttools.core.reports.registry import write_report
from ttools.prove import prove
from ttools.prove.api import SizesResult, load_function, read_sizes


@cache
def overflow() -> SizesResult:
    """Return the result for a kernel whose offsets wrap, which takes seconds."""
    return prove(kernels.copy, n=range(1, 1 << 33))


@pytest.mark.ttools_sizes(n=range(1, 1 << 20), require_proof=True)
def test_a_marked_test_is_called_for_all_sizes(n: int) -> None:
    kernels.copy(n)


def test_the_json_report_names_the_least_size() -> None:
    result = overflow()
    data = json.loads(write_report(result.report, "json"))
    assert data["sizes"]["checked"] == {"n": [1, (1 << 33) - 1]}
    assert data["sizes"]["verdict"] == "fails"
    (finding,) = data["findings"]
    assert (finding["kind"], finding["sizes"]) == ("int_overflow", {"n": 2**31 + 1})
    with pytest.raises(FindingsError, match="failed at n = 2,147,483,649, the least"):
        result.raise_for_failures()


@pytest.mark.parametrize(
    "form",
    [
        "text",
        *(pytest.param(f, marks=pytest.mark.slow) for f in ("sarif", "junit", "github", "html")),
    ],
)
def test_every_report_names_the_least_size(form: str) -> None:
    result = prove(kernels.shift, n=range(1, 1 << 20))
    assert "n = 130" in write_report(result.report, form)


def test_the_page_has_a_bar_for_each_kernel() -> None:
    (kernel,) = overflow().report.sizes.kernels
    assert (kernel.kernel, kernel.failing, kernel.is_least) == (
        "copy_kernel",
        {"n": 2**31 + 1},
        True,
    )
    unknown = prove(kernels.gather_random, n=range(1, 1 << 20)).report
    (kernel,) = unknown.sizes.kernels
    assert kernel.failing is None
    assert kernel.unproved == unknown.sizes.abstained
    page = write_report(unknown, "html")
    assert page.count('<rect class="unproved"') == 1
    assert kernel.unproved[0].reason.split("`")[0] in page


def _summary(page: str) -> str:
    """Return the text of the first part of a page."""
    header = page[page.index("<h1>") : page.index("</header>")]
    return " ".join(
        html.unescape(re.sub("<.*?>", "", re.sub("</(h1|p|pre)>", " ", header))).split()
    )


def test_the_page_begins_with_the_verdict_and_its_evidence() -> None:
    summary = _summary(write_report(overflow().report, "html"))
    assert summary.startswith(
        "copy_kernel: failed at n = 2,147,483,649, the least failing size copy; failed: 1 "
    )
    assert "an integer wraps in the computation of an address (kernels.py:" in summary
    assert "n = 2,147,483,649 is the smallest size at which it appears" in summary
    assert "What to do: widen one of the operands first" in summary
    unknown = prove(kernels.gather_random, n=range(1, 1 << 20)).report
    (sentence,) = [kernel.text(unknown.root) for kernel in unknown.sizes.by_kernel]
    assert _summary(write_report(unknown, "html")).startswith(sentence.replace("`", ""))


@pytest.mark.parametrize("text", ["n", "n=", "n=5:2", "=1:3", "n=1:x"])
def test_invalid_ranges_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--sizes"):
        read_sizes([text])


def test_ranges_are_parsed() -> None:
    assert read_sizes(["n=1:4_096", "m=7"]) == {"n": (1, 4096), "m": (7, 7)}


def test_targets_other_than_functions_are_refused() -> None:
    for target, words in (("x.py", "FILE.py"), ("no_such.py:run", "there is no file")):
        with pytest.raises(UsageError, match=words):
            load_function(target, {"n": (1, 2)})
    with pytest.raises(UsageError, match="does not take an argument `q`"):
        load_function(f"{kernels.__file__}:copy", {"q": (1, 2)})
