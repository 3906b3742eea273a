"""The inputs for which a candidate fails are described by the simplest condition."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case
from ttools.verifier.options import VerifyOptions
from ttools.verifier.run.conditions import failing_condition
from ttools.verifier.serving import verify_here

BLOCKS = {"group": ["16", "32", "64"], "block_k": ["16", "32", "64"], "dtype": ["float16"]}
DOMAIN = Domain(
    sizes={"M": (1, 4096), "N": (1, 4096)},
    choices=BLOCKS,
    seeded=True,
    literals={**BLOCKS, "dtype": ["'float16'"]},
)
Test = Callable[[dict[str, int]], bool]


def described(test: Test, tries: int = 40, **sizes: int) -> tuple[str, int]:
    """Return the clause, and the number of cases that ran."""
    ran = []

    def fails(case: Case) -> bool:
        numbers = {name: int(BLOCKS[name][case.choices[name]]) for name in ("group", "block_k")}
        ran.append(case)
        return test({**case.sizes, **numbers})

    choices = {"group": 0, "block_k": 1, "dtype": 0}
    case = Case(sizes={"M": 1, "N": 1, **sizes}, choices=choices)
    return failing_condition(case, DOMAIN, fails, tries), len(ran)


@pytest.mark.parametrize(
    ("test", "sizes", "condition"),
    [
        (lambda p: p["block_k"] > p["group"], {}, "block_k > group"),
        (lambda p: p["block_k"] > p["group"] and p["M"] > 1, {"M": 2}, "block_k > group"),
        (lambda p: p["N"] > 1024, {"N": 1025}, "N > 1024"),
        (lambda p: p["N"] % 16 != 0, {}, "N % 16 != 0"),
        (lambda p: p["N"] % 64 != 0, {}, "N % 64 != 0"),
        (lambda p: p["M"] > p["N"], {"M": 2}, "M > N"),
        (lambda p: p["N"] > p["group"], {"N": 17}, "N > group"),
    ],
)
def test_the_simplest_condition_is_found(test: Test, sizes: dict[str, int], condition: str) -> None:
    text, ran = described(test, **sizes)
    assert text.startswith(f"fails exactly where {condition} ("), text
    assert ran <= 40


@pytest.mark.parametrize(
    "test",
    [
        lambda p: True,
        lambda p: (p["M"] * 7 + p["N"] * 5 + p["group"]) % 3 != 0,
    ],
)
def test_nothing_is_said_without_a_simple_condition(test: Test) -> None:
    assert described(test)[0] == ""


def test_the_number_of_cases_is_limited() -> None:
    assert described(lambda p: p["N"] % 16 != 0, tries=5) == ("", 5)


def test_sequences_of_calls_are_not_described() -> None:
    case = Case(sizes={"M": 1, "N": 1}, choices={}, after=(Case(sizes={"M": 1, "N": 1}),))
    assert failing_condition(case, DOMAIN, lambda case: pytest.fail("a case ran"), 40) == ""


FILE = """
import torch
import triton
import triton.language as tl

DOMAIN = {"N": (1, 100), "block": [16, 32, 64, 128], "dtype": ["float32"]}
CONTIGUOUS = ["x"]


@triton.jit
def double_kernel(x_ptr, o_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(o_ptr + lanes, tl.load(x_ptr + lanes, mask=lanes < n) * 2.0, mask=lanes < n)


def candidate(x, block):
    out = torch.zeros_like(x)
    double_kernel[(1,)](x, out, x.numel(), B=block)
    return out


def reference(x, block):
    return x * 2


def inputs(N, block, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(N, generator=generator), "block": block}
"""


@pytest.mark.slow
def test_a_report_contains_the_condition(tmp_path: Path) -> None:
    file = tmp_path / "doubled.py"
    file.write_text(FILE)
    subject = {name: f"{file}:{name}" for name in ("candidate", "reference", "inputs")}
    verification = verify_here(subject, VerifyOptions(all_sizes_seconds=0))
    failure = next(f for f in verification.failures if f.failure == "wrong_values")
    assert re.match(r"fails exactly where N > (block|16)", failure.condition), failure.condition
    assert verification.as_dict()["failures"][0]["condition"] == failure.condition
    assert "fails exactly where" in verification.to("text")
