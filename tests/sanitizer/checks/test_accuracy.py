"""Lines that lose accuracy, and outputs that do not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import mpmath  # type: ignore[import-untyped]
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from ttools.core.errors import UsageError
from ttools.core.findings.findings import Finding
from ttools.core.reports.accuracy import EDGES
from ttools.sanitizer import sanitize
from ttools.sanitizer.accuracy.shadow import HAS_EXTENDED

EXTENDED = pytest.mark.skipif(not HAS_EXTENDED, reason="there is no type beyond float64")


def marked(finding: Finding) -> str:
    """Return the comment at the line of a finding."""
    assert finding.location is not None
    line = Path(__file__).read_text("utf-8").splitlines()[finding.location.line - 1]
    return line.rpartition("# ")[2]


def grave(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(f.kind, marked(f)) for f in findings if f.severity != "note"]


@triton.jit
def column_sum(x_ptr, o_ptr, rows, D: tl.constexpr, WIDE: tl.constexpr):
    d = tl.arange(0, D)
    acc = tl.zeros([D], dtype=tl.float32 if WIDE else tl.bfloat16)
    for i in range(rows):
        acc += tl.load(x_ptr + i * D + d)  # sum
    tl.store(o_ptr + d, acc)


def test_a_narrow_accumulator_is_named_with_its_share() -> None:
    x, out = torch.rand(600, 8).bfloat16(), torch.zeros(8, dtype=torch.bfloat16)
    with sanitize(checks="accuracy") as report:
        column_sum[(1,)](x, out, 600, D=8, WIDE=False)
    (finding,) = report.findings
    assert (finding.kind, marked(finding), finding.count) == ("accuracy_loss", "sum", 8)
    assert "the addition rounds to bfloat16 and causes 100% of it" in finding.message
    assert finding.help == "accumulate in float32, for example acc += x.to(tl.float32)"
    assert {name for name, _ in finding.variables} == {"a", "b"}
    assert finding.argument is not None
    assert finding.argument.name == "o_ptr"
    with sanitize(checks="accuracy") as report:
        column_sum[(1,)](x, out, 600, D=8, WIDE=True)
    (note,) = report.findings
    assert (note.kind, note.severity) == ("within_rounding", "note")
    assert "ulp of bfloat16: within what rounding the output to bfloat16 allows" in note.message


@triton.jit
def kahan(x_ptr, o_ptr, n, D: tl.constexpr):
    d = tl.arange(0, D)
    acc = tl.zeros([D], dtype=tl.float32)
    c = tl.zeros([D], dtype=tl.float32)
    for i in range(n):
        y = tl.load(x_ptr + i * D + d) - c
        t = acc + y
        c = (t - acc) - y
        acc = t
    tl.store(o_ptr + d, acc)


def test_compensated_summation_is_right() -> None:
    out = torch.zeros(4)
    with sanitize(checks="accuracy") as report:
        kahan[(1,)](torch.rand(300, 4), out, 300, D=4)
    (note,) = report.findings
    assert note.message.startswith("the largest error of `o_ptr` is 0.")


@triton.jit
def minus_one(x_ptr, o_ptr, N: tl.constexpr, LIBRARY: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if LIBRARY:
        y = libdevice.expm1(x)
    else:
        y = tl.exp(x)  # exponential
        y = y - 1.0  # difference
    tl.store(o_ptr + i, y)


def test_a_cancellation_names_both_lines() -> None:
    x, out = 1e-3 * torch.rand(64), torch.zeros(64)
    with sanitize(checks="accuracy") as report:
        minus_one[(1,)](x, out, N=64, LIBRARY=False)
    (finding,) = report.findings
    assert grave(report.findings) == [("cancellation", "exponential")]
    assert finding.help == "use libdevice.expm1 for exp(x) - 1"
    (other,) = finding.related
    assert other.location is not None
    assert other.location.line == finding.location.line + 1  # type: ignore[union-attr]
    with sanitize(checks="accuracy") as report:
        minus_one[(1,)](x, out, N=64, LIBRARY=True)
    assert grave(report.findings) == []


@triton.jit
def deviation(x_ptr, o_ptr, N: tl.constexpr, PASSES: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    mean = tl.sum(x, 0) / N  # mean
    if PASSES == 2:
        var = tl.sum((x - mean) * (x - mean), 0) / N
    else:
        square = tl.sum(x * x, 0) / N  # square
        var = square - mean * mean
    tl.store(o_ptr, var)


def test_a_variance_of_one_pass_and_one_of_two() -> None:
    x, out = 3000 + 0.3 * torch.randn(256), torch.zeros(1)
    with sanitize(checks="accuracy") as report:
        deviation[(1,)](x, out, N=256, PASSES=1)
    assert grave(report.findings)[0] in (("cancellation", "mean"), ("cancellation", "square"))
    with sanitize(checks="accuracy") as report:
        deviation[(1,)](x, out, N=256, PASSES=2)
    assert grave(report.findings) == []


@triton.jit
def dot_product(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i) * tl.load(y_ptr + i), 0))


def test_a_sensitive_sum_is_not_reported() -> None:
    x = torch.randn(512)
    y = torch.randn(512)
    y -= x * (x.double() @ y.double() / (x.double() @ x.double())).float()  # nearly orthogonal
    out = torch.zeros(1)
    with sanitize(checks="accuracy") as report:
        dot_product[(1,)](x, y, out, N=512)
    (note,) = report.findings
    assert note.kind == "within_rounding"
    assert "small changes of the inputs change the result as much" in note.message


@triton.jit
def squares(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    square = x * x  # square
    norm = tl.sqrt(tl.sum(square.to(tl.float32), 0))
    tl.store(o_ptr + i, x.to(tl.float32) / norm)


def test_an_overflow_that_a_division_hides() -> None:
    x, out = torch.full((32,), 1000.0, dtype=torch.float16), torch.zeros(32)
    with sanitize(checks="accuracy") as report:
        squares[(1,)](x, out, N=32)
    (finding,) = report.findings
    assert grave(report.findings) == [("overflow", "square")]
    assert ("a", "1000") in finding.variables
    assert "exceeds the range of its type, which makes `o_ptr` wrong" in finding.message
    assert not out.any()


@triton.jit
def sigmoid(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, 1.0 / (1.0 + tl.exp(-tl.load(x_ptr + i))))


@triton.jit
def entropy(x_ptr, o_ptr, N: tl.constexpr):
    p = tl.load(x_ptr + tl.arange(0, N))
    h = p * tl.log(p)  # product
    tl.store(o_ptr, -tl.sum(h, 0))


def test_infinities_matter_only_where_they_do_harm() -> None:
    with sanitize(checks="accuracy") as report:
        sigmoid[(1,)](torch.linspace(-200, 200, 32), torch.zeros(32), N=32)
    assert grave(report.findings) == []
    with sanitize(checks="accuracy") as report:
        entropy[(1,)](torch.tensor([0.0, 0.5, 0.25, 0.25]), torch.zeros(1), N=4)
    ((kind, line),) = grave(report.findings)
    assert (kind, line) in (("nan", "product"), ("inf", "product"))


def test_nan_in_the_arguments_is_not_reported() -> None:
    x = torch.tensor([float("nan"), float("inf"), 1.0, 2.0])
    with sanitize(checks="accuracy") as report:
        sigmoid[(1,)](x, torch.zeros(4), N=4)
    assert grave(report.findings) == []


@triton.jit
def variance(x_ptr, o_ptr, n, N: tl.constexpr, MASKED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    d = x - tl.sum(x, 0) / n
    if MASKED:
        d = tl.where(i < n, d, 0.0)
    tl.store(o_ptr, tl.sum(d * d, 0) / n)  # variance


def test_padded_lanes_in_a_variance() -> None:
    x, out = 5 + torch.rand(3), torch.zeros(1)
    with sanitize(checks="accuracy") as report:
        variance[(1,)](x, out, 3, N=4, MASKED=False)
    assert grave(report.findings) == [("padded_lanes", "variance")]
    (finding,) = (f for f in report.findings if f.kind == "padded_lanes")
    assert finding.notes[0].startswith("with these lanes the result is ")
    with sanitize(checks="accuracy") as report:
        variance[(1,)](x, out, 3, N=4, MASKED=True)
    assert grave(report.findings) == []


@triton.jit
def softmax(x_ptr, o_ptr, n, rows, N: tl.constexpr, M: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    inside = (i < rows) & (j < n)
    x = tl.load(x_ptr + i * n + j, mask=inside, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(o_ptr + i * n + j, e / tl.sum(e, 1)[:, None], mask=inside)


def test_neutral_padding_and_padded_rows_are_right() -> None:
    x, out = torch.randn(3, 5), torch.zeros(3, 5)
    with sanitize(checks="accuracy") as report:
        softmax[(1,)](x, out, 5, 3, N=8, M=4)
    assert grave(report.findings) == []
    torch.testing.assert_close(out, torch.softmax(x, 1))


@triton.jit
def multiplied(x_ptr, o_ptr, factor, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i).to(tl.float32)
    tl.store(o_ptr + i, x * factor)  # stored


def test_errors_are_carried_from_launch_to_launch() -> None:
    x, small, out = 1e-6 * torch.rand(32), torch.zeros(32).half(), torch.zeros(32)
    with sanitize(checks="accuracy") as report:
        multiplied[(1,)](x, small, 1.0, N=32)
        multiplied[(1,)](small, out, 1e6, N=32)
    found = grave(report.findings)
    assert found
    assert {line for _, line in found} == {"stored"}
    assert {f.kind for f in report.findings if f.severity != "note"} <= {
        "accuracy_loss",
        "underflow",
    }
    with sanitize(checks="accuracy") as report:
        multiplied[(1,)](x, small, 1.0, N=32)
        small.copy_(torch.rand(32))  # the exact value restarts
        multiplied[(1,)](small, out, 1e6, N=32)
    assert not any(f.argument is not None and f.argument.name == "o_ptr" and f.severity != "note"
                   and "float32" in f.message for f in report.findings)  # fmt: skip


@triton.jit
def atomic_sum(x_ptr, o_ptr):
    tl.atomic_add(o_ptr, tl.load(x_ptr + tl.program_id(0)))  # atomic


def test_atomic_additions_in_a_narrow_type() -> None:
    x, out = torch.full((200,), 0.3, dtype=torch.float16), torch.zeros(1, dtype=torch.float16)
    x[0] = 1900.0
    with sanitize(checks="accuracy") as report:
        atomic_sum[(200,)](x, out)
    assert grave(report.findings) == [("accuracy_loss", "atomic")]


@triton.jit
def rounded_on_purpose(x_ptr, o_ptr, noise_ptr, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    scale = tl.max(tl.abs(x), 0) / 127.0
    q = tl.floor(x / scale + 0.5).to(tl.int8)
    tl.store(o_ptr + i, q.to(tl.float32) * scale)
    tl.store(noise_ptr + i, tl.randn(seed, i))


def test_quantisation_and_random_numbers_are_silent() -> None:
    with sanitize(checks="accuracy") as report:
        rounded_on_purpose[(1,)](
            torch.randn(256), torch.zeros(256), torch.zeros(256), 3, N=256
        )  # fmt: skip
    assert grave(report.findings) == []


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    return mean_a + delta * (n_b / n), m2_a + m2_b + delta * delta * n_a * (n_b / n), n


@triton.jit
def welford_kernel(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    _mean, m2, n = tl.reduce(
        (x, tl.zeros([N], tl.float32), tl.full([N], 1.0, tl.float32)), 0, welford
    )
    tl.store(o_ptr, m2 / n)


def test_a_combine_function_of_the_user_is_followed() -> None:
    with sanitize(checks="accuracy") as report:
        welford_kernel[(1,)](50 + torch.randn(64), torch.zeros(1), N=64)
    assert [f.kind for f in report.findings] == ["within_rounding"]


@triton.jit
def unfollowed(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = libdevice.j0(tl.load(x_ptr + i))  # Bessel
    print("seen", tl.program_id(0))
    tl.store(o_ptr + i, x)


def test_unfollowed_operations_are_listed_and_prints_are_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with sanitize(checks="accuracy") as report:
        unfollowed[(1,)](torch.rand(8), torch.zeros(8), N=8)
    (note,) = (f for f in report.findings if f.kind == "unsupported")
    assert (note.severity, marked(note)) == ("note", "Bessel")
    assert "its results count as exact" in note.message
    assert capsys.readouterr().out.count("seen") == 1


@triton.jit
def in_place(x_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)


def test_a_repeated_launch_changes_nothing() -> None:
    x, n = torch.zeros(3000 * 4), torch.zeros(16, dtype=torch.int32)
    with sanitize(checks="accuracy,memcheck") as report:
        in_place[(3000,)](x, N=4)
        in_place[(4,)](n, N=4)  # no floats, so it is not followed
    assert bool((x == 1).all())
    assert bool((n == 1).all())
    (note,) = report.findings
    assert note.notes[-1] == "the figures are those of 1 in 3 elements"
    assert note.message == (
        "the largest error of `x_ptr` is 0 ulp of float32: within what rounding the output to "
        "float32 allows"
    )


def test_elements_are_named_by_their_index_in_the_argument() -> None:
    x, base = torch.rand(600, 8).bfloat16(), torch.zeros(2, 8, dtype=torch.bfloat16)
    with sanitize(checks="accuracy") as report:
        column_sum[(1,)](x, base[1], 600, D=8, WIDE=False)
    (finding,) = report.findings
    assert re.match(r"`o_ptr`\[[0-7]\] is [0-9.]+ and should be [0-9.]+: ", finding.notes[0])


# --- tolerances and lines ---------------------------------------------------------------------


@triton.jit
def row_norm(x_ptr, o_ptr, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    x = tl.load(x_ptr + i).to(tl.float32)
    square = tl.sum(x * x, 0)  # sum
    y = x / tl.sqrt(square)  # quotient
    tl.store(o_ptr + i, y)  # store


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_suggested_tolerance_holds_for_other_inputs(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    x, out = torch.randn(8, 64, generator=generator).to(dtype), torch.zeros(8, 64, dtype=dtype)
    with sanitize(checks="accuracy", suggest_tolerance=True) as report:
        row_norm[(8,)](x, out, D=64)
    (output,) = report.accuracy
    assert (output.kernel, output.argument) == ("row_norm", "o_ptr")
    assert f"torch.{output.dtype}" == str(dtype)
    assert output.rtol is not None
    assert output.atol is not None
    eps = torch.finfo(dtype).eps
    assert eps / 2 < output.rtol + output.atol < 60 * eps
    text = report.to("text")
    assert f"`o_ptr` of row_norm ({output.dtype}): {output.tolerance}" in text
    assert f"  largest error {output.ulps:.2g} ulp: " in text
    for _ in range(5):
        x = torch.randn(8, 64, generator=generator).to(dtype)
        row_norm[(8,)](x, out, D=64)
        exact = (x.double() / x.double().norm(dim=1, keepdim=True)).to(dtype)
        torch.testing.assert_close(out, exact, rtol=output.rtol, atol=output.atol)


def test_outputs_with_defects_get_no_tolerance() -> None:
    x, out = torch.rand(600, 8).bfloat16(), torch.zeros(8, dtype=torch.bfloat16)
    with sanitize(checks="accuracy", suggest_tolerance=True) as report:
        column_sum[(1,)](x, out, 600, D=8, WIDE=False)
    (output,) = report.accuracy
    assert (output.rtol, output.atol) == (None, None)
    assert "none, because the output has errors that are reported as defects" in report.to("text")
    with sanitize(checks="accuracy", suggest_tolerance=True) as report:
        pass
    assert "none, because the check `accuracy` has compared no output" in report.to("text")
    assert "suggested tolerances" not in sanitize(checks="accuracy").to("text")
    with pytest.raises(UsageError, match="only suggested by the check `accuracy`"):
        sanitize(suggest_tolerance=True)


def test_errors_of_lines_and_outputs() -> None:
    x, out = torch.rand(600, 8).bfloat16(), torch.zeros(8, dtype=torch.bfloat16)
    with sanitize(checks="accuracy") as report:
        column_sum[(1,)](x, out, 600, D=8, WIDE=False)
        column_sum[(1,)](x, out, 600, D=8, WIDE=False)
    (output,), (line,) = report.accuracy, report.report().line_errors
    source = Path(__file__).read_text("utf-8").splitlines()
    assert source[line.location.line - 1].endswith("# sum")
    assert (line.operations, line.dtype) == (("addition",), "bfloat16")
    assert 0.05 < line.introduced_ulps < 0.5  # at most half an ulp is lost in an addition
    assert line.carried_ulps > 3 * line.introduced_ulps
    assert output.elements == sum(output.histogram) == 16
    assert output.histogram[0] == 0
    ((place, share),) = output.shares
    assert place.line == line.location.line
    assert share == pytest.approx(1.0)
    assert re.fullmatch(r"\[[0-7]\]", output.index)
    assert output.ulps > EDGES[5]
    parts = output.by_rounding + output.by_conditioning + output.by_kernel
    assert parts == pytest.approx(output.ulps)
    assert output.by_kernel > 0.9 * output.ulps
    page = report.to("html")
    assert "bfloat16): stored elements by error" in page
    assert "100% of <code>o_ptr</code>" in page


def test_a_note_contains_the_parts_of_the_largest_error() -> None:
    x, out = torch.rand(600, 8).bfloat16(), torch.zeros(8, dtype=torch.bfloat16)
    with sanitize(checks="accuracy") as report:
        column_sum[(1,)](x, out, 600, D=8, WIDE=True)
    (note,) = report.findings
    assert re.match(
        r"parts of the largest error: 0\.\d+ ulp by rounding to bfloat16, \S+ ulp by the "
        r"conditioning, \S+ ulp by the kernel",
        note.notes[1],
    )


# --- float64 ----------------------------------------------------------------------------------


@triton.jit
def columns(x_ptr, o_ptr, rows, D: tl.constexpr, NARROW: tl.constexpr):
    d = tl.arange(0, D)
    acc = tl.zeros([D], dtype=tl.float32 if NARROW else tl.float64)
    for i in range(rows):
        x = tl.load(x_ptr + i * D + d)
        if NARROW:
            x = x.to(tl.float32)  # narrowed
        acc += x  # addition
    tl.store(o_ptr + d, acc.to(o_ptr.dtype.element_ty))


@EXTENDED
def test_errors_of_float64_agree_with_mpmath() -> None:
    x, out = torch.rand(300, 4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    with sanitize(checks="accuracy") as report:
        columns[(1,)](x, out, 300, D=4, NARROW=False)
    (output,) = report.accuracy
    with mpmath.workdps(50):
        exact = [mpmath.fsum(map(mpmath.mpf, column)) for column in x.T.tolist()]
        ulps = [
            abs(mpmath.mpf(a) - b) / b * 2**52 for a, b in zip(out.tolist(), exact, strict=True)
        ]
    assert output.dtype == "float64"
    assert output.ulps == pytest.approx(float(max(ulps)), rel=0.01, abs=0.01)
    (note,) = report.findings
    assert note.kind == "within_rounding"
    assert "a loss that these hide, too, is not seen" in note.notes[-1]


@EXTENDED
def test_defects_of_float64_kernels() -> None:
    x, out = 1e-9 * torch.rand(64, dtype=torch.float64), torch.zeros(64, dtype=torch.float64)
    with sanitize(checks="accuracy") as report:
        minus_one[(1,)](x, out, N=64, LIBRARY=False)
    assert grave(report.findings) == [("cancellation", "exponential")]
    with sanitize(checks="accuracy") as report:
        minus_one[(1,)](x, out, N=64, LIBRARY=True)
    assert grave(report.findings) == []
    x, out = torch.rand(300, 4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    with sanitize(checks="accuracy") as report:
        columns[(1,)](x, out, 300, D=4, NARROW=True)
    found = grave(report.findings)
    assert found
    assert set(found) <= {("accuracy_loss", "narrowed"), ("accuracy_loss", "addition")}


@EXTENDED
def test_a_float64_output_of_a_kernel_in_float32_is_right() -> None:
    x, out = torch.rand(300, 4), torch.zeros(4, dtype=torch.float64)
    with sanitize(checks="accuracy") as report:
        columns[(1,)](x, out, 300, D=4, NARROW=True)
    assert grave(report.findings) == []


# --- decisions --------------------------------------------------------------------------------


@triton.jit
def decided(x_ptr, o_ptr, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    x = (tl.load(x_ptr + i) + 1e9) - 1e9
    if HOW == "where":
        is_positive = x > 0  # where
        y = tl.where(is_positive & (i < N), 1.0, 0.0)  # selection
    elif HOW == "relu":
        y = tl.where(x > 0, x, 0.0)  # relu
    elif HOW == "branch":
        if tl.sum(x, 0) > 0:  # branch
            y = x + 1
        else:
            y = x + 2
    elif HOW == "mask":
        y = tl.load(x_ptr + i, mask=x > 0, other=0.0)  # mask
    elif HOW == "number":
        y = (x > 0).to(tl.float32)  # number
    elif HOW == "unused":
        y = x * ((x > 0) & (i < 0))
    elif HOW == "argmax":
        y = tl.argmax(x, 0) + tl.zeros([N], tl.float32)  # argmax
    elif HOW == "argmin":
        y = tl.argmin(-x, 0) + tl.zeros([N], tl.float32)  # argmin
    elif HOW == "sort":
        y = tl.sort(x)  # sort
    tl.store(o_ptr + i, y)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (
            "where",
            "`a > b`: the exact values give the opposite in 3 lanes, and this selects a value",
        ),
        (
            "branch",
            "`a > b`: the exact values give the opposite in 1 lane, and this decides a branch",
        ),
        ("mask", "opposite in 3 lanes, and this decides which elements are accessed"),
        ("number", "opposite in 3 lanes, and this becomes a number"),
        (
            "argmax",
            "`argmax`: the exact values choose another element in 1 lane, and this gives an",
        ),
        (
            "argmin",
            "`argmin`: the exact values choose another element in 1 lane, and this gives an",
        ),
        ("sort", "and this orders elements"),
    ],
)
def test_decisions_that_the_exact_values_make_differently(how: str, text: str) -> None:
    x, out = torch.tensor([0.0, 3.0, 2.0, 1.0]), torch.zeros(4)
    with sanitize(checks="accuracy") as report:
        decided[(1,)](x, out, N=4, HOW=how)
    (note,) = (f for f in report.findings if f.kind == "decision")
    assert text in note.message
    assert (note.severity, marked(note)) == ("note", how)
    assert "the exact results follow the kernel's choice" in note.notes[0]
    if how == "where":
        assert note.variables == (("a", "0"), ("b", "0"))
        assert note.notes[0].startswith("exact values: a = 3, b = 0; ")
        assert [r.message for r in note.related] == ["here it selects a value"]
        assert grave(report.findings) == []  # the output is exactly what the kernel decided
    if how == "argmax":
        assert note.variables == (("chosen", "0"), ("other", "0"))
        assert note.notes[0].startswith("exact values: chosen = 0, other = 3")
    if how == "sort":
        assert not [f for f in report.findings if f.kind == "unsupported"]


@pytest.mark.parametrize("how", ["relu", "unused"])
def test_decisions_without_consequences_are_not_reported(how: str) -> None:
    with sanitize(checks="accuracy") as report:
        decided[(1,)](torch.tensor([0.0, 3.0, 2.0, 1.0]), torch.zeros(4), N=4, HOW=how)
    assert "decision" not in {finding.kind for finding in report.findings}


def test_exact_values_are_followed_through_a_sort() -> None:
    x, out = torch.rand(64), torch.zeros(64)
    with sanitize(checks="accuracy") as report:
        decided[(1,)](640 * x, out, N=64, HOW="sort")
    (output,) = report.accuracy
    assert output.ulps > 1000  # the values were rounded before they were sorted
    assert "unsupported" not in {finding.kind for finding in report.findings}


# --- exact results ----------------------------------------------------------------------------


def test_exact_results_replace_those_of_the_kernel() -> None:
    x, out = torch.rand(600, 8).bfloat16(), torch.zeros(8, dtype=torch.bfloat16)
    exact = x.double().sum(0)
    with sanitize(checks="accuracy", exact_results=True) as report:
        column_sum[(1,)](x, out, 600, D=8, WIDE=False)
    assert grave(report.findings) == [("accuracy_loss", "sum")]  # errors are those of the kernel
    assert torch.equal(out, exact.bfloat16())
    small, y = torch.zeros(32).half(), 1e-6 * torch.rand(32)
    with sanitize(checks="accuracy", exact_results=True) as report:
        multiplied[(1,)](y, small, 1.0, N=32)
        multiplied[(1,)](small, out := torch.zeros(32), 1e6, N=32)
    torch.testing.assert_close(out, 1e6 * y, rtol=1e-6, atol=0)  # not rounded in between
    with pytest.raises(UsageError, match="exact results are only computed by the check"):
        sanitize(exact_results=True)


def limits_of(findings: Sequence[Finding]) -> list[str]:
    return [f.message for f in findings if f.kind == "unsupported"]


def test_results_that_are_not_all_exact_are_noted() -> None:
    x, out = torch.tensor([0.0, 3.0, 2.0, 1.0]), torch.zeros(4)
    with sanitize(checks="accuracy", exact_results=True) as report:
        decided[(1,)](x, out, N=4, HOW="branch")
    (text,) = limits_of(report.findings)
    assert text.endswith("the exact values would make some decisions of the kernel differently")
    y = torch.randn(256)
    with sanitize(checks="accuracy", exact_results=True) as report:
        rounded_on_purpose[(1,)](y, torch.zeros(256), torch.zeros(256), 3, N=256)
    (text,) = limits_of(report.findings)
    assert text.endswith("exact values restart after operations that round on purpose")
    with sanitize(checks="accuracy", exact_results=True) as report:
        in_place[(3000,)](torch.zeros(3000 * 4), N=4)
    assert limits_of(report.findings) == [
        "not all results are exact: 256 of 3,000 programs were followed"
    ]
