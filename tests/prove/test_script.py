"""Launches of scripts are generalised to all sizes: the formulas, and the claims about them."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from tests.prove import kernels

from ttools.core.errors import UsageError
from ttools.core.reports.registry import write_report
from ttools.interpreter import interpret
from ttools.prove.trace.check import check_launches
from ttools.prove.trace.inference import infer_template
from ttools.prove.trace.launches import ScriptTrace, trace_launches
from ttools.prove.trace.template import Template


def _traced(
    *launches: tuple[object, tuple[int, ...], tuple[object, ...], dict[str, object]],
) -> ScriptTrace:
    """Return the trace of launches, which are not executed."""
    trace = ScriptTrace()
    for kernel, grid, args, kwargs in launches:
        trace.record(kernel, args, {**kwargs, "grid": grid})
    return trace


def _copy(n: int, block: int = 1024) -> ScriptTrace:
    x = torch.zeros(n, dtype=torch.int8)
    grid = (triton.cdiv(n, block),)
    return _traced((kernels.copy_kernel, grid, (x, torch.empty_like(x), n), {"BLOCK": block}))


def _template(trace: ScriptTrace) -> Template:
    (launch,) = trace.launches
    return infer_template(launch, {})


def test_numbers_become_functions_of_sizes() -> None:
    template = _template(_copy(3000))
    assert template.sizes == {"n": 3000}
    assert template.assumptions[0] == (
        "for `copy_kernel`: x_ptr.shape[0] = n, y_ptr.shape[0] = n, grid[0] = cdiv(n, 1024)"
    )
    assert template.assumptions[1] == "for `copy_kernel`, at all sizes: BLOCK = 1024"


def test_a_script_with_small_tensors_is_wrong_at_large_ones() -> None:
    result = check_launches(_copy(3000))
    (finding,) = result.findings
    assert (finding.kind, finding.sizes) == ("int_overflow", {"n": 2**31 + 1})
    assert finding.launch is not None
    assert "test_script.py" in finding.launch
    text = str(result)
    assert "assumed: for `copy_kernel`: x_ptr.shape[0] = n" in text
    assert "assumed: the tensors of a launch fit in 80 GB of memory" in text


def test_ranges_of_the_user_hold() -> None:
    result = check_launches(_copy(3000), {"n": (1, 1 << 31)})
    assert result.verdict == "proved"
    assert check_launches(_copy(3000), {"m": (1, 9)}).verdict == "fails"
    assert check_launches(_copy(3000), {"n": (5, 5), "m": (1, 9)}).verdict == "not proved"


@triton.jit
def norm_kernel(x_ptr, o_ptr, part_ptr, stride, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + c, mask=c < D, other=0.0)
    tl.store(o_ptr + row * stride + c, x, mask=c < D)
    tl.store(part_ptr + row * tl.num_programs(1) + tl.program_id(1), tl.sum(x, axis=0))


def test_strides_products_and_buffers_per_block() -> None:
    x = torch.zeros(3, 37, 300)
    o, part = torch.empty_like(x), torch.empty(3 * 37, 5)
    args = (x, o, part, x.stride(1), 300)
    template = _template(_traced((norm_kernel, (3 * 37, 5), args, {"BLOCK": 64})))
    assert template.sizes == {"x_ptr.shape[0]": 3, "x_ptr.shape[1]": 37, "D": 300}
    assumption = template.assumptions[0]
    assert "stride = D" in assumption
    assert "grid[0] = x_ptr.shape[0] * x_ptr.shape[1], grid[1] = cdiv(D, 64)" in assumption
    assert (
        "part_ptr.shape[0] = x_ptr.shape[0] * x_ptr.shape[1], part_ptr.shape[1] = cdiv(D, 64)"
        in assumption
    )
    small = {"x_ptr.shape[0]": (1, 100), "x_ptr.shape[1]": (1, 100), "D": (1, 10_000)}
    (launch,) = _traced((norm_kernel, (3 * 37, 5), args, {"BLOCK": 64})).launches
    assert check_launches(ScriptTrace([launch]), small).verdict == "proved"


def test_views_with_gaps_grow_along_one_axis() -> None:
    x = torch.zeros(40, 3, 64)[:, 1]
    o = torch.empty(40, 64)
    args = (x, o, torch.empty(40, 1), x.stride(0), 64)
    template = _template(_traced((norm_kernel, (40, 1), args, {"BLOCK": 64})))
    assert template.sizes == {"x_ptr.shape[0]": 40}
    assert any("x_ptr.stride(0) = 192" in assumption for assumption in template.assumptions)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def even_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y_ptr + offs, tl.load(x_ptr + offs))
    else:
        tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def test_heuristics_decide_at_every_size() -> None:
    x = torch.zeros(1024)
    with trace_launches() as trace, interpret():
        even_kernel[(8,)](x, torch.empty_like(x), 1024, BLOCK=128)
    result = check_launches(trace, {"n": (1, 1 << 20)})
    assert result.verdict == "proved"
    assert "EVEN" not in str(result)


def test_indistinguishable_numbers_are_no_proof() -> None:
    x = torch.zeros(4)
    trace = _traced((kernels.copy_kernel, (7,), (x, x, 99), {"BLOCK": 16}))
    assert check_launches(trace).verdict == "not proved"
    assert check_launches(
        ScriptTrace(left_out=["`k`: the argument `x` is of the unsupported type tuple"])
    ).verdict == ("not proved")


def test_assumptions_apply_to_launches_with_the_parameter() -> None:
    n = 3000
    args = (torch.randn(n), torch.arange(n), torch.empty(n), n)
    trace = _traced((kernels.gather_kernel, (triton.cdiv(n, 64),), args, {"BLOCK": 64}))
    ranges = {"n": (1, 1 << 20)}
    (name,) = [k for k, t in trace.launches[0].tensors.items() if t.dtype == torch.int64]
    assert check_launches(trace, ranges).verdict == "not proved"
    result = check_launches(trace, ranges, assume={name: (0, "n - 1")})
    assert result.verdict == "proved"
    assert any(
        name in assumption and "are from" in assumption
        for assumption in result.report.sizes.assumptions
    )
    with pytest.raises(UsageError, match="no kernel that is launched"):
        check_launches(trace, ranges, assume={"y_ptr": (0, 1)})
    with pytest.raises(UsageError, match="not one of the sizes"):
        check_launches(trace, ranges, assume={name: (0, "m")})


@triton.jit
def heads_kernel(x_ptr, T, B: tl.constexpr, H: tl.constexpr, BT: tl.constexpr, D: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    batch, head = tl.program_id(1) // H, tl.program_id(1) % H
    at = ((batch.to(tl.int64) * T + t) * H + head)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(x_ptr + at, 1.0, mask=(t < T)[:, None])


def test_extents_that_equal_a_block_by_coincidence_are_fixed() -> None:
    x = torch.zeros(2, 256, 2, 64)
    constants: dict[str, object] = {"B": 2, "H": 2, "BT": 128, "D": 64}
    # The extent 256 also consists of 4 blocks of 64.
    template = _template(_traced((heads_kernel, (2, 4), (x, 256), constants)))
    assumption, fixed, *_ = template.assumptions
    assert "grid[0] = cdiv(T, 128)" in assumption
    assert "grid[1] = 4" in fixed
    assert check_launches(_traced((heads_kernel, (2, 4), (x, 256), constants))).verdict == "proved"


@triton.jit
def rows_kernel(x_ptr, stride, D, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    tl.store(x_ptr + row * stride + c, 1.0, mask=c < D)


def test_fixed_extents_are_not_rounded_up_from_a_size() -> None:
    x = torch.zeros(2, 16)
    template = _template(_traced((rows_kernel, (2,), (x, 16, 16), {"BLOCK": 16})))
    assert "stride = 16, D = 16" in template.assumptions[1]  # not cdiv(x_ptr.shape[0], 16) * 16


def test_grids_that_cannot_be_launched_are_found() -> None:
    y = torch.zeros(3000, 64)
    trace = _traced((rows_kernel, (1, 3000), (y, 64, 64), {"BLOCK": 64}))
    assert any(
        "grid[1] is at most 65,535" in assumption for assumption in _template(trace).assumptions
    )
    # All programs along that axis store equal values.
    (finding,) = [f for f in check_launches(trace).findings if f.kind == "refused_launch"]
    assert finding.sizes is not None
    assert 65_536 in finding.sizes.values()
    assert finding.severity == "error"


@triton.jit
def tiles_kernel(x_ptr, N, BLOCK: tl.constexpr):
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    tl.store(x_ptr + row * N + c, 1.0, mask=c < N)


def test_large_grids_of_tiles_are_excluded_by_an_assumption() -> None:
    x = torch.zeros(3, 1000)
    trace = _traced((tiles_kernel, (3, 16), (x, 1000), {"BLOCK": 64}))
    result = check_launches(trace)
    assert not [f for f in result.findings if f.kind == "refused_launch"]
    assert any(
        "at sizes beyond 1,048,576" in assumption for assumption in _template(trace).assumptions
    )


@triton.jit
def partial_kernel(x_ptr, part_ptr, n, rows, ROWS: tl.constexpr, D: tl.constexpr):
    pid = tl.program_id(0)
    c = tl.arange(0, D)
    total = tl.zeros([D], tl.float32)
    for row in range(pid * ROWS, tl.minimum(pid * ROWS + ROWS, rows)):
        total += tl.load(x_ptr + row * D + c)
    tl.store(part_ptr + pid * D + c, total)


def test_a_grid_may_count_an_axis_or_blocks() -> None:
    x, part = torch.zeros(16, 64), torch.zeros(2, 64)
    # 2 programs: the number of rows of `part`, or of blocks of 8 in 16 rows.
    trace = _traced((partial_kernel, (2,), (x, part, 5, 16), {"ROWS": 8, "D": 64}))
    assert "grid[0] = cdiv(rows, 8)" in _template(trace).assumptions[0]
    result = check_launches(trace, {"rows": (1, 1 << 16), "part_ptr.shape[0]": (1, 1 << 16)})
    assert result.verdict == "proved"
    assert any(
        "grid[0] = part_ptr.shape[0]" in assumption
        for assumption in result.report.sizes.assumptions
    )


@triton.jit
def grouped_kernel(x_ptr, scale_ptr, sb, sh, sg, sd, ssb, ssh, D: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * sb + tl.program_id(1) * sh
    d = tl.arange(0, D)
    tl.store(x_ptr + at + sg + d * sd, 1.0)
    tl.store(scale_ptr + tl.program_id(0).to(tl.int64) * ssb + tl.program_id(1) * ssh, 1.0)


def test_consecutive_stride_arguments_belong_to_one_tensor() -> None:
    x, scale = torch.zeros(10, 4, 2, 8), torch.zeros(10, 4, 2)
    # The stride of a group is 8, which is also the stride of a row of `scale`: 4 * 2.
    trace = _traced((grouped_kernel, (10, 4), (x, scale, *x.stride(), 8, 2), {"D": 8}))
    assumption, fixed, *_ = _template(trace).assumptions
    assert "sb = x_ptr.shape[1] * ssh * 8, sh = ssh * 8, ssb = x_ptr.shape[1] * ssh" in assumption
    assert "sg = 8, sd = 1" in fixed


@triton.jit
def states_kernel(x_ptr, h_ptr, T, BT: tl.constexpr, MASKED: tl.constexpr):
    for block in range(tl.cdiv(T, BT)):
        t = block * BT + tl.arange(0, BT)
        x = tl.load(x_ptr + t, mask=(t < T) | (not MASKED), other=0.0)
        tl.store(h_ptr + block, tl.sum(x))


@pytest.mark.parametrize("masked", [False, True])
def test_extents_of_one_block_may_be_counted_in_blocks(masked: bool) -> None:
    x, h = torch.zeros(64), torch.zeros(1)
    constants: dict[str, object] = {"BT": 64, "MASKED": masked}
    result = check_launches(
        _traced((states_kernel, (1,), (x, h, 64), constants)), {"T": (1, 1 << 20)}
    )
    assert result.verdict == ("proved" if masked else "fails")
    if masked:
        assert any("h_ptr.shape[0] = cdiv(T, 64)" in e for e in result.report.sizes.assumptions)
    else:
        (finding,) = result.report.failing
        assert finding.argument is not None
        assert finding.argument.name == "x_ptr"


@triton.jit
def steps_kernel(o_ptr, T, V: tl.constexpr, BV: tl.constexpr):
    v = tl.program_id(0) * BV + tl.arange(0, BV)
    for t in range(T):
        tl.store(o_ptr + t * V + v, 1.0)


def test_a_grid_may_count_blocks_of_a_fixed_extent() -> None:
    o = torch.zeros(63, 64)  # 63 rows also have 8 blocks of 8
    result = check_launches(
        _traced((steps_kernel, (8,), (o, 63), {"V": 64, "BV": 8})), {"T": (1, 1 << 20)}
    )
    assert result.verdict == "proved"
    assert any("grid[0] = 8" in assumption for assumption in result.report.sizes.assumptions)


def test_assumptions_are_compared_with_the_tables_of_the_script() -> None:
    n = 70
    with trace_launches({"index_ptr"}) as trace, interpret():
        for index in (torch.arange(n), torch.arange(n) // 2):
            kernels.gather_kernel[(2,)](torch.randn(n), index, torch.empty(n), n, BLOCK=64)
    ranges = {"n": (1, 1 << 20)}
    kept = check_launches(trace, ranges, assume={"index_ptr": (0, "n - 1", "sorted")})
    assert kept.verdict == "proved"
    for promise, sentence in (
        ((1, "n - 1"), "contains 0, which is below 1"),
        ((0, "n - 2"), "contains 69, which is above 68"),
        (("distinct",), "contains equal numbers"),
    ):
        with pytest.raises(UsageError, match=sentence):
            check_launches(trace, ranges, assume={"index_ptr": promise})


def _ahead(*distances: int) -> ScriptTrace:
    x, y = torch.zeros(1000), torch.zeros(1000)
    more: dict[str, object] = {"BLOCK": 256}
    return _traced(*((kernels.ahead_kernel, (4,), (x, y, 900, d), more) for d in distances))


def test_an_argument_that_equals_no_extent_is_a_condition_of_the_verdict() -> None:
    result = check_launches(_ahead(100, 50), {"x_ptr.shape[0]": (1000, 2000)})
    assert result.verdict == "proved"
    text = " ".join(write_report(result.report, "text").split())
    scope = "x_ptr.shape[0] = 1,000 to 2,000, only for n = 900, distance = 100 or 50"
    assert f"`ahead_kernel`: proved for {scope}" in text
    assert "--sizes n=FIRST:LAST checks other values of `n`" in text
    assert result.report.sizes is not None
    (kernel,) = result.report.sizes.as_data()["kernels"]
    assert (kernel["kept"], kernel["scope"]) == ({"n": [900], "distance": [100, 50]}, scope)


def test_a_range_makes_an_argument_a_size() -> None:
    ranges = {"x_ptr.shape[0]": (1000, 2000), "n": (0, 900), "distance": (0, 101)}
    result = check_launches(_ahead(100), ranges)
    (finding,) = result.findings
    assert finding.sizes == {"x_ptr.shape[0]": 1000, "n": 900, "distance": 101}
    assert "only for" not in write_report(result.report, "text")
    assert check_launches(_ahead(100), {**ranges, "distance": (0, 100)}).verdict == "proved"


@triton.jit
def seeded_kernel(x_ptr, n, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, offs + seed, mask=offs < n)


def test_an_argument_that_the_proof_does_not_need_is_no_condition() -> None:
    trace = _traced((seeded_kernel, (12,), (torch.zeros(3000), 3000, 7), {"BLOCK": 256}))
    result = check_launches(trace, {"n": (1, 1 << 20)})
    assert result.verdict == "proved"
    (kernel,) = result.report.sizes.by_kernel if result.report.sizes else ()
    assert kernel.checked == {"n": (1, 1 << 20), "seed": (1, 1 << 33)}
    assert not kernel.kept
