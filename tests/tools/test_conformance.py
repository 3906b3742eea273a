"""The conformance tool on a small checkout with one test function per outcome."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest
from tests.forked_python import PYTHON
from tools.conformance.outcomes import classify
from tools.conformance.plugin import answer_for_newer_devices

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 20.0  # of a case: the first launch imports the compiler

CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--device", default="cuda")

@pytest.fixture
def device(request):
    return request.config.getoption("--device")
"""

TESTS = """
import os, time
import pytest, torch, triton
import triton.language as tl
from triton._internal_testing import is_cpu, is_cuda, is_newer_than_this_triton
from ttools.core.errors import UnsupportedError

@triton.jit
def double(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) * 2)

@pytest.mark.interpreter
@pytest.mark.parametrize("value", [1, 2, 3, 4, 5, 6])
def test_passes(value, device):
    x = torch.tensor([value], device=device)
    double[(1,)](x)
    assert x.item() == 2 * value

@pytest.mark.interpreter
def test_fails():
    assert 1 + 1 == 3

@pytest.mark.interpreter
def test_is_refused():
    try:
        raise UnsupportedError("tt.levitate")
    except UnsupportedError as error:
        raise RuntimeError("while compiling") from error

@pytest.mark.interpreter
def test_calls_cuda():
    torch.cuda.synchronize()

@pytest.mark.interpreter
def test_reads_gpu_code():
    x = torch.tensor([1])
    assert "scf.for" in double[(1,)](x).asm["ttgir"]

@pytest.mark.interpreter
def test_lacks_api():
    tl.make_something_new

@pytest.mark.interpreter
@pytest.mark.skipif(not is_cuda(), reason="needs sm_90")
def test_skips():
    pass

@pytest.mark.interpreter
@pytest.mark.skipif(torch.cuda.get_device_capability()[0] < 10, reason="capability")
def test_is_not_asked_for_a_gpu_by_its_mark():
    if is_cpu() or is_newer_than_this_triton():
        pytest.skip("no such device here")

@pytest.mark.interpreter
def test_is_not_skipped_for_another_backend():
    pytest.skip("Large loads unsupported on CPU")

@pytest.mark.interpreter
def test_uses_what_is_gone():
    raise ValueError("Block pointers have been removed in favor of descriptors")

@pytest.mark.interpreter
def test_hangs():
    while True:
        time.sleep(1)

@pytest.mark.interpreter
def test_crashes():
    os.abort()

@pytest.mark.interpreter
def test_passes_after_a_crash():
    pass

@triton.jit
def take(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr + 3))

@pytest.mark.interpreter
def test_reads_past_the_end():
    take[(1,)](torch.zeros(3))

def test_is_not_marked():
    assert False
"""

OTHER_TRITON = """
import pytest
from triton.language import make_something_new

@pytest.mark.interpreter
def test_never_imported():
    pass
"""


def test_a_newer_checkout_may_query_unknown_devices(monkeypatch):
    import triton._internal_testing as internal

    for name in ("is_cpu", "__getattr__"):  # the plugin sets these names only in its own process
        monkeypatch.setattr(internal, name, None, raising=False)
    answer_for_newer_devices()
    from triton._internal_testing import is_cuda, is_of_tomorrow

    assert not is_of_tomorrow()
    assert is_cuda is vars(internal)["is_cuda"]
    with pytest.raises(AttributeError, match="numpy_of_tomorrow"):
        internal.numpy_of_tomorrow  # noqa: B018


def run(*arguments: object) -> subprocess.CompletedProcess:
    words = ["-m", "tools.conformance", *map(str, arguments)]
    return PYTHON.run(words, cwd=ROOT, env={**os.environ, "COLUMNS": "140"}, timeout=280)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    unit = folder / "python" / "test" / "unit" / "language"
    unit.mkdir(parents=True)
    (unit.parent.parent / "conftest.py").write_text(CONFTEST)
    (unit / "test_fake.py").write_text(TESTS)
    (unit / "test_other_triton.py").write_text(OTHER_TRITON)
    return folder


@pytest.fixture(scope="module")
def whole_run(checkout, tmp_path_factory):
    """Run the whole checkout once, with a sample of three cases per function."""
    folder = tmp_path_factory.mktemp("reports")
    page = folder / "page.md"
    page.write_text("# Before\n<!-- begin: conformance -->old<!-- end: conformance -->\nAfter\n")
    result = run(
        *("--checkout", checkout, "--sample", 3, "--seed", 7, "--timeout", TIMEOUT),
        *("--json", folder / "all.json", "--markdown", page),
    )
    assert result.returncode == 1, result.stderr
    assert (folder / "all.json").exists(), result.stderr
    return result, json.loads((folder / "all.json").read_text()), page.read_text()


def outcomes(report, name):
    function = next(f for f in report["functions"] if f["function"] == f"test_fake.py::{name}")
    return [(case["status"], case["reason"]) for case in function["outcomes"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("test_fails", "wrong", "AssertionError"),
        ("test_is_refused", "unsupported", "tt.levitate"),
        ("test_calls_cuda", "excluded", "calls torch.cuda itself"),
        ("test_reads_gpu_code", "excluded", "reads the `ttgir` of the kernel, which is GPU code"),
        ("test_lacks_api", "excluded", "`make_something_new` is not in this Triton"),
        (
            "test_uses_what_is_gone",
            "excluded",
            "this Triton says: Block pointers have been removed",
        ),
        ("test_is_not_skipped_for_another_backend", "pass", ""),
        ("test_skips", "excluded", "the test skips itself: needs sm_90"),
        ("test_is_not_asked_for_a_gpu_by_its_mark", "pass", ""),
        ("test_hangs", "wrong", "timeout"),
        ("test_crashes", "wrong", "crash"),
        ("test_passes_after_a_crash", "pass", ""),
    ],
)
def test_outcomes_of_cases(whole_run, name, status, reason):
    assert outcomes(whole_run[1], name) == [(status, reason)]


@pytest.mark.slow
def test_a_sample_of_a_function_runs_on_the_default_backend(whole_run):
    report = whole_run[1]
    passing = next(f for f in report["functions"] if f["function"].endswith("::test_passes"))
    assert (passing["cases"], passing["run"], passing["pass"]) == (6, 3, 3)


@pytest.mark.slow
def test_unmarked_functions_are_not_run(whole_run):
    assert not [f for f in whole_run[1]["functions"] if "not_marked" in f["function"]]


@pytest.mark.slow
def test_a_file_of_another_triton_is_named(whole_run):
    reason = "`make_something_new` is not in this Triton"
    assert whole_run[1]["not_imported"] == {"test_other_triton.py::test_never_imported": reason}


@pytest.mark.slow
def test_the_terminal_has_the_table_and_every_wrong_case(whole_run):
    text = whole_run[0].stdout
    assert "test_fake.py::test_passes " in text
    assert "wrong: unit/language/test_fake.py::test_hangs: timeout: no answer after 20 s" in text
    assert "SIGABRT" in text


@pytest.mark.slow
def test_the_page_keeps_the_text_around_the_tables(whole_run):
    page = whole_run[2]
    assert page.startswith("# Before\n<!-- begin: conformance -->\n")
    assert page.endswith("<!-- end: conformance -->\nAfter\n")
    assert "old" not in page
    assert "| `test_fake.py::test_passes` | 6 | 3 | 3 |" in page


@pytest.mark.slow
def test_one_function_that_passes(checkout):
    result = run("--checkout", checkout, "--only", "test_passes_after_a_crash", "--timeout", 60)
    assert result.returncode == 0, result.stderr + result.stdout
    assert "Evaluated cases that pass: 1 of 1" in result.stdout


def test_a_folder_other_than_a_checkout(tmp_path):
    result = run("--checkout", tmp_path)
    assert result.returncode == 2
    assert "has no python/test/unit" in result.stderr


def test_a_missing_function(checkout):
    result = run("--checkout", checkout, "--only", "test_nothing")
    assert result.returncode == 2
    assert "no function named test_nothing" in result.stderr


def test_a_checkout_that_pytest_cannot_collect(tmp_path):
    unit = tmp_path / "python" / "test" / "unit"
    unit.mkdir(parents=True)
    (unit.parent / "conftest.py").write_text("raise RuntimeError('broken')")
    (unit / "test_one.py").write_text(
        textwrap.dedent(
            """
            import pytest

            @pytest.mark.interpreter
            def test_one():
                pass
            """
        )
    )
    result = run("--checkout", tmp_path)
    assert result.returncode == 3
    assert "broken" in result.stderr


@pytest.mark.slow
def test_findings_make_a_case_wrong(checkout, tmp_path):
    names = ("test_reads_past_the_end", "test_passes")
    only = [word for name in names for word in ("--only", name)]
    result = run("--checkout", checkout, "--sanitize", "--json", tmp_path / "all.json", *only)
    assert result.returncode == 1, result.stderr
    report = json.loads((tmp_path / "all.json").read_text())
    assert outcomes(report, names[0]) == [("wrong", "error[oob_load]")]
    assert set(outcomes(report, names[1])) == {("pass", "")}
    assert "--sanitize default" in report["settings"]["command"]


def test_a_failure_of_the_sanitizer_names_the_check():
    text = "k.py:12:17: error[oob_load]: out-of-bounds load of 4 bytes from `x_ptr`\n   12 |"
    outcome = classify(pytest.fail.Exception(text))
    assert outcome == ("wrong", "error[oob_load]", "out-of-bounds load of 4 bytes from `x_ptr`")
    wrapped = text.replace("4 bytes from", "4 bytes\n  from").replace("   12", "  120")
    assert classify(pytest.fail.Exception(wrapped)) == outcome
    assert classify(pytest.fail.Exception("no"))[:2] == ("wrong", "Failed")
    assert classify(AssertionError(text))[:2] == ("wrong", "AssertionError")


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Cache modifier .cs not supported", "excluded"),
        ("lhs_scale must be a tensor of shape [128, 2]. Got ['1', '128', '2']", "excluded"),
        ("lhs_scale must be a tensor of shape [128, 2]. Got ['128', '4']", "wrong"),
        ("topk() got an unexpected keyword argument 'descending'", "excluded"),
        ("topk() got an unexpected keyword argument 'axis'", "wrong"),
        ("error encountered during parsing", "excluded"),
    ],
)
def test_features_missing_in_older_front_ends_are_distinguished_from_errors(message, status):
    assert classify(RuntimeError(message))[0] == status
