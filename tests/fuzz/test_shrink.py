"""Tests that failing kernels are reduced to short scripts, with an intentionally wrong oracle."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from ttools.fuzz import oracle
from ttools.fuzz.generate.kernel import generate
from ttools.fuzz.operations.table import OPERATIONS, Operation
from ttools.fuzz.program import Program, all_expressions
from ttools.fuzz.script import script
from ttools.fuzz.shrink import shrink, without_unused
from ttools.fuzz.text import definitions
from ttools.fuzz.trial import Failure, examine
from ttools.fuzz.variants import BASELINE, BY_NAME


def _spoil(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    right = OPERATIONS[name]

    def wrong(expr, args, frame):
        value = np.array(right.evaluate(expr, args, frame))
        value.reshape(-1)[-1:] = 0
        return value

    monkeypatch.setitem(OPERATIONS, name, Operation(right.write, wrong))


def _failure(program: Program, folder: Path) -> Failure | None:
    try:
        verdict = examine(program, [BASELINE], folder)
    except Exception:  # noqa: BLE001 - an invalid kernel does not count as a failure
        return None
    failures = [failure for failure in verdict.failures if failure.kind == "wrong"]
    return failures[0] if failures else None


def _first_failing(folder: Path) -> tuple[Program, Failure]:
    for seed in range(60):
        program = generate(seed)
        if any(e.op == "minimum" for e in all_expressions(program.body)):
            failure = _failure(program, folder)
            if failure is not None:
                return program, failure
    raise AssertionError("no kernel shows the fault")


@pytest.mark.slow
def test_a_planted_fault_becomes_a_short_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _spoil(monkeypatch, "minimum")
    program, _ = _first_failing(tmp_path)
    small = shrink(program, lambda p: _failure(p, tmp_path) is not None, seconds=40)
    latest = _failure(small, tmp_path)
    assert latest is not None
    assert latest.mismatch is not None
    assert [e.op for e in all_expressions(small.body)].count("minimum") == 1
    assert len(definitions(small)) < len(definitions(program)) / 2
    shown = script(small, BASELINE, mismatch=latest.mismatch)
    assert len(shown.splitlines()) <= 25
    assert {"import torch, triton", "import triton.language as tl"} <= set(shown.splitlines())
    expected, got = _run(shown, tmp_path)
    assert expected != got


def _run(shown: str, folder: Path) -> tuple[str, str]:
    """Run a script and return the expected and the actual values that it prints."""
    path = folder / "shown.py"
    path.write_text(shown)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(shown, str(path), "exec"), {"__name__": "__main__"})
    match = re.search(r"expected (\[.*\]) got (\[.*\])", printed.getvalue())
    assert match is not None, printed.getvalue()
    return match[1], match[2]


def test_the_script_of_a_correct_kernel_prints_equal_values(tmp_path: Path) -> None:
    from ttools.fuzz.comparison import Mismatch

    program = next(p for p in map(generate, range(99)) if len(p.buffers) < 6)
    out = next(buffer for buffer in program.buffers if buffer.role == "out")
    mismatch = Mismatch(out.name, (0, out.size - 1), (), (), 0, out.size, False)
    expected, got = _run(script(program, BASELINE, mismatch=mismatch), tmp_path)
    assert eval(expected) == pytest.approx(eval(got), nan_ok=True, rel=1e-5)


@pytest.mark.parametrize(
    "name", ["materialised", "all checks", "eager", "opt 0", "no fusion", "unsimplified"]
)
def test_scripts_run_in_the_variant_that_fails(name: str, tmp_path: Path) -> None:
    program = without_unused(generate(3))
    shown = script(program, BY_NAME[name])
    compile(shown, "script.py", "exec")
    settings = {
        "materialised": 'interpret(schedule="materialised")',
        "all checks": 'sanitize(checks="all")',
        "eager": 'interpret(engine="eager")',
        "opt 0": 'TTOOLS_OPT="0"',
        "no fusion": "enable_fp_fusion=False",
        "unsimplified": "with fewest_passes(), interpret():",
    }
    assert settings[name] in shown


def test_kernels_without_unused_definitions_are_valid() -> None:
    for seed in range(30):
        tidy = without_unused(generate(seed))
        oracle.run(tidy)
        assert len(definitions(tidy)) <= len(definitions(generate(seed)))
