"""Outputs are compared with those of a reference function of the user."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import UsageError
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.references import expected_outputs, load_reference


@triton.jit
def halve_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) * FACTOR, mask=mask)


RETURNS = "def right(x_ptr, n):\n    return {'out_ptr': x_ptr[:n] * 0.5}\n"
WRITES = "def right(out_ptr, x_ptr, **others):\n    out_ptr.copy_(x_ptr / 2)\n"


@pytest.mark.parametrize("text", [RETURNS, WRITES])
@pytest.mark.parametrize("workers", [0, 1])
def test_all_configurations_are_compared_with_the_function(
    tmp_path: Path, text: str, workers: int
) -> None:
    path = tmp_path / "truth.py"
    path.write_text(text)
    kernel = triton.autotune(
        [triton.Config({"BLOCK": 64, "FACTOR": factor}) for factor in (0.6, 0.5, 0.7)], ["n"]
    )(halve_kernel)
    x, out = torch.rand(100), torch.zeros(100)
    checks = Checks(reference=f"{path}:right")
    with TuningRun(TuneOptions(checks=checks, workers=workers)) as run:
        kernel[(2,)](x, out, 100)
    (result,) = run.results
    statuses = {t.values["FACTOR"]: t.status for t in result.trials.values()}
    assert statuses == {0.6: "wrong", 0.5: "ok", 0.7: "wrong"}
    assert torch.equal(out, x / 2)
    assert result.notes == []


def test_a_function_may_state_that_nothing_changes() -> None:
    x = torch.ones(3)
    expected = expected_outputs("m:f", lambda x: None, {"x": x, "n": 3})
    assert list(expected) == ["x"]
    assert expected["x"] is not x


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nothing", "does not name a function"),
        ("no_such_module_here:f", "ModuleNotFoundError"),
        ("math:no_such", "`math` has no function `no_such`"),
        ("none.py:f", "there is no file `none.py`"),
    ],
)
def test_missing_functions(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_reference(text)


def test_invalid_names_are_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="does not name a function; use MODULE:FUNCTION"):
        TuneOptions(checks=Checks(reference="nothing"))


def test_functions_that_fail_or_return_something_else() -> None:
    with pytest.raises(UsageError, match=r"must return \{name: tensor\}.*returned a int"):
        expected_outputs("m:f", lambda: 3, {})  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="fails: ZeroDivisionError"):
        expected_outputs("m:f", lambda: 1 / 0, {})  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="returned `y`, which is not an argument"):
        expected_outputs("m:f", lambda: {"y": 1}, {"x": 1})
