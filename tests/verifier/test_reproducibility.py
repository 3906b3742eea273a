"""Tests of `reproduce()`: equal and different bits, and what is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.verifier import reproducible_kernels as kernels

from ttools.core.errors import FailuresError, UsageError
from ttools.verifier import Answer, Reproducibility, reproduce


def line_of(text: str) -> str:
    """Return `file:line` of the only line of the kernels that contains a text."""
    lines = Path(kernels.__file__).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if text in line]
    return f"reproducible_kernels.py:{number}"


def verdicts(result: Reproducibility) -> set[str]:
    return {answer.verdict for answer in result.answers}


def batch_of(function: Any, n: int = 100) -> Reproducibility:
    arguments = kernels.inputs(3, n)
    return reproduce(function, arguments, questions=(), batch={"x": 0})


def test_rows_of_a_softmax_do_not_depend_on_the_batch() -> None:
    result = batch_of(kernels.softmax)
    assert verdicts(result) == {"equal"}
    assert result.passed
    subjects = [answer.subject for answer in result.answers]
    assert subjects == [
        "row 0 in a batch of 3 and alone",
        "rows 0 to 1 in a batch of 3 and alone",
        "row 1 in a batch of 3 and alone",
        "row 2 in a batch of 3 and alone",
    ]
    assert result.answers[0].elements == 100


def test_parts_that_depend_on_the_batch_differ() -> None:
    result = batch_of(kernels.split_by_batch)
    by_subject = {answer.subject: answer for answer in result.answers}
    assert by_subject["rows 0 to 1 in a batch of 3 and alone"].verdict == "equal"
    alone = by_subject["row 2 in a batch of 3 and alone"]
    assert (alone.verdict, alone.witness) == ("differs", "result[0] of the smaller batch")
    assert alone.reason.endswith(
        "; the number of programs along axis 1 is 1 for 3 rows and 2 for 1 row"
    )
    assert alone.where.endswith(line_of("part_kernel[(rows, parts)]"))
    with pytest.raises(FailuresError, match="batch: differs: row 0 in a batch of 3 and alone"):
        result.raise_for_failures()


def test_order_of_atomics() -> None:
    arguments = kernels.inputs(2, 100)
    (answer,) = reproduce(kernels.four_parts, arguments, questions=["runs"]).answers
    assert (answer.verdict, answer.subject) == ("differs", "part_kernel, 8 programs")
    assert answer.where.endswith(line_of("tl.atomic_add"))
    assert answer.reason == "the order of atomic additions decides 2 elements"
    (answer,) = reproduce(kernels.softmax, arguments, questions=["runs"]).answers
    assert (answer.verdict, answer.elements) == ("equal", 200)


def test_configurations_of_a_sum() -> None:
    result = reproduce(kernels.sums, kernels.inputs(2, 100), questions=["configs"])
    stages, warps = result.answers
    assert (stages.verdict, stages.elements) == ("equal", 2)
    assert warps.verdict == "differs"
    assert warps.where.endswith(line_of("tl.store(out_ptr + tl.program_id(0), tl.sum(x, 0))"))
    assert "a sum of 128 elements, of which a thread adds 4 and a warp 128" in warps.reason


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_products_do_not_depend_on_the_block_along_k(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    arguments = {"a": torch.randn(16, 64).to(dtype), "b": torch.randn(64, 16).to(dtype)}
    (answer,) = reproduce(kernels.product, arguments, questions=["configs"]).answers
    assert (answer.verdict, answer.elements) == ("equal", 256), str(answer)
    assert answer.subject == "product_kernel: BLOCK_K=16 and BLOCK_K=32"


@pytest.mark.parametrize(("function", "elements"), [(kernels.padded, 4), (kernels.counts, 2)])
def test_padding_and_exact_sums_do_not_change_bits(function: Any, elements: int) -> None:
    result = reproduce(function, kernels.inputs(2, 300), questions=["configs"])
    answers = {(answer.verdict, answer.elements) for answer in result.answers}
    assert answers == {("equal", elements)}, result.to("text")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (kernels.scan, "the order of a scan is not followed"),
        (kernels.own_sum, "the order of a reduction with `add` is not followed"),
        (
            kernels.normalised_by_torch,
            "a load of memory that is neither an argument nor stored by a kernel",
        ),
    ],
)
def test_what_is_not_modelled_is_unknown(function: Any, reason: str) -> None:
    result = batch_of(function)
    assert verdicts(result) == {"unknown"}
    assert {answer.reason for answer in result.answers} == {reason}
    assert not result.passed


def test_heads_of_an_attention_do_not_depend_on_their_number() -> None:
    torch.manual_seed(0)
    shapes = {"q": (3, 16, 32), "k": (3, 64, 32), "v": (3, 64, 32)}
    arguments = {name: torch.randn(shape).half() for name, shape in shapes.items()}
    batch = dict.fromkeys(shapes, 0)
    result = reproduce(kernels.attention, arguments, questions=(), batch=batch)
    assert verdicts(result) == {"equal"}, result.to("text")


def test_sums_in_a_loop_have_another_order_than_in_the_source() -> None:
    result = reproduce(kernels.sums_in_a_loop, kernels.inputs(4, 256), questions=(), batch={"x": 0})
    by_subject = {answer.subject: answer for answer in result.answers}
    answer = by_subject["rows 0 to 1 in a batch of 4 and alone"]
    assert answer.verdict == "unknown"
    assert answer.reason == "the compiler has replaced the sum by other operations"


def test_products_that_the_compiler_may_fuse_with_sums() -> None:
    arguments = kernels.inputs(2, 300)
    (answer,) = reproduce(kernels.affine, arguments, questions=["configs"]).answers
    assert (answer.verdict, answer.elements) == ("equal", 600), str(answer)
    (answer,) = reproduce(kernels.two_products, arguments, questions=["configs"]).answers
    assert answer.verdict == "unknown"
    assert "the compiler may fuse the product at" in answer.reason
    assert line_of("x * y + x * 1.7") in answer.reason


def test_results_without_the_batch_are_unknown() -> None:
    answer = batch_of(kernels.whole_sum).answers[0]
    assert answer.verdict == "unknown"
    assert answer.reason == "no result has an axis with as many elements as the batch"


def test_unknown_orders_do_not_depend_on_the_order_of_programs() -> None:
    result = reproduce(kernels.scan, kernels.inputs(2, 100), questions=["runs"])
    assert verdicts(result) == {"equal"}


def test_kernels_without_configurations() -> None:
    result = reproduce(kernels.softmax, kernels.inputs(2, 100), questions=["configs"])
    assert result.answers == ()
    assert result.verdict == "unknown"
    assert result.notes == ("no kernel is autotuned, so there are no configurations to compare",)


@pytest.mark.parametrize(
    ("batch", "rows", "message"),
    [
        ({"y": 0}, 3, "`y` is not a tensor argument; there are x"),
        ({"x": 2}, 3, "`x` has 2 axes, not 2"),
        ({"x": 0}, 1, "the batch has one row"),
    ],
)
def test_wrong_batches(batch: dict[str, int], rows: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reproduce(kernels.softmax, kernels.inputs(rows, 8), questions=(), batch=batch)


def test_amd_is_not_supported() -> None:
    with pytest.raises(UsageError, match="NVIDIA GPUs, not for gfx942"):
        reproduce(kernels.softmax, kernels.inputs(2, 8), gpu="gfx942")


def test_devices() -> None:
    arguments = kernels.inputs(2, 100)
    (answer,) = reproduce(kernels.sums, arguments, questions=(), devices=["sm_80"]).answers
    assert (answer.question, answer.verdict, answer.elements) == ("devices", "equal", 2)
    assert answer.subject == "sum_kernel: sm_90 and sm_80"
    (answer,) = reproduce(kernels.softmax, arguments, questions=(), devices=["sm_80"]).answers
    assert answer.verdict == "unknown"
    assert answer.reason == "no standard defines the bits of `exp`, so that two GPUs may differ"
    assert answer.where.endswith(line_of("e = tl.exp(x - tl.max(x, 0))"))
    torch.manual_seed(0)
    matrices = {"a": torch.randn(16, 64).half(), "b": torch.randn(64, 16).half()}
    (answer,) = reproduce(kernels.product, matrices, questions=(), devices=["sm_80"]).answers
    assert answer.verdict == "unknown"
    assert answer.reason == "tensor cores of two GPUs may add the terms in another order"


def test_tensors_outside_of_host_memory_are_refused() -> None:
    x = torch.empty(4, 8, device="meta")
    with pytest.raises(UsageError, match="`x` is on `meta`, but the kernels run on the CPU"):
        reproduce(kernels.softmax, {"x": x})


def test_reports() -> None:
    answers = tuple(
        Answer(question="configs", subject=f"k: A and {n}", verdict="equal", elements=4)
        for n in range(8)
    )
    differs = Answer(
        question="batch",
        subject="row 0 of 2 and alone",
        verdict="differs",
        elements=4,
        reason="`fadd` in the first, an input in the second",
        where="k.py:3",
        witness="result[0]",
    )
    result = Reproducibility(function="k.py:f", target="sm_90", answers=(*answers, differs))
    lines = result.to("text").splitlines()
    assert lines[0] == "k.py:f for sm_90"
    assert lines[1] == "configs: proved equal: k: A and 0, 4 elements"
    assert "batch: differs: row 0 of 2 and alone" in lines
    assert "  k.py:3: `fadd` in the first, an input in the second" in lines
    assert "configs: proved equal: 2 further comparisons" in lines
    data = json.loads(result.to("json"))
    assert (data["schema"], data["outcome"]) == ("ttools.reproducibility/1", "failed")
    assert data["answers"][-1]["where"] == "k.py:3"


def test_the_report_of_findings_joins_equal_reasons() -> None:
    def answer(row: int, **fields: Any) -> Answer:
        subject = f"row {row} of 3 and alone"
        return Answer(question="batch", subject=subject, verdict="differs", elements=1, **fields)

    where = f"{kernels.__file__}:44"
    alike = [answer(n, reason="other parts", where=where, witness="result[0]") for n in (0, 1)]
    scan = Answer(question="runs", subject="k", verdict="unknown", elements=1, reason="a scan")
    equal = Answer(question="configs", subject="A and B", verdict="equal", elements=1)
    answers = (*alike, answer(2, reason="another reason"), scan, equal)
    result = Reproducibility(function="k.py:f", target="sm_90", answers=answers)
    brief = result.to("brief")
    assert "reproducible_kernels.py:44" in brief
    assert "batch: row 0 of 3 and alone: other parts" in brief
    sarif = json.loads(result.to("sarif"))["runs"][0]
    found = [(one["ruleId"], one["level"]) for one in sarif["results"]]
    assert found == [("differs", "error"), ("differs", "error"), ("unknown", "warning")]
    junit = result.to("junit")
    assert "the same for: row 1 of 3 and alone" in junit
    assert "Bits of `k.py:f` may differ on sm_90: 3 of 5 comparisons" in junit
    assert "::error" in result.to("github")
    page = result.to("html")
    assert "configs: proved equal: A and B" in page
    assert "choose blocks, the number of warps and the number of parts" in page
