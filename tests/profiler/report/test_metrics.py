"""The table of metrics describes the columns of all frames."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

torch = pytest.importorskip("torch", reason="torch is not installed")

from ttools.core.reports.numbers import is_known  # noqa: E402
from ttools.profiler import profile  # noqa: E402
from ttools.profiler.metrics import (  # noqa: E402
    KERNELS,
    TABLES,
    Metric,
    Needs,
    column_names,
)
from ttools.profiler.report import frames  # noqa: E402


@triton.jit
def scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2.0, mask=offs < n)


def analysis(**how: Any) -> Any:
    x = torch.ones(1000)
    with profile(on="cpu", line_times=False, **how) as prof:
        for n in (1000, 1000, 500):
            scale_kernel[(4,)](x, n, BLOCK=256)
    return prof.analyse()


@pytest.mark.parametrize(
    ("how", "present"),
    [
        ({}, ()),
        ({"target": "gfx942"}, ("target",)),
        ({"target": "sm_90"}, ("target", "cuda")),
        ({"device": "mi300x"}, ("device", "target")),
        ({"device": "h100"}, ("device", "target", "cuda", "projection")),
    ],
)
def test_frames_have_the_columns_of_their_tables(
    how: dict[str, str], present: tuple[Needs, ...]
) -> None:
    result = analysis(**how)
    assert list(result.frame.columns) == column_names(KERNELS, *present)
    for name, table in TABLES.items():
        if name != "frame":
            names = [m.name for m in table if m.needs != "cuda" or "cuda" in present]
            assert list(getattr(result, name).columns) == names


def test_values_have_the_kind_of_their_metric() -> None:
    result = analysis(device="h100")
    for name, table in TABLES.items():
        rows = getattr(result, name).to_dict("records")
        assert rows
        for metric in table:
            for row in rows:
                value = row.get(metric.name)
                if value is None or value != value:
                    continue
                numeric = is_known(value) and not isinstance(value, bool)
                assert numeric == (metric.kind not in ("text", "shares")), (name, metric.name)
                assert metric.kind != "share" or 0 <= value <= 1.0001, (name, metric.name)
                if metric.derive is not None:
                    assert value == pytest.approx(metric.derive(row)), (name, metric.name)


def test_names_are_unique_and_everything_is_explained() -> None:
    for table in TABLES.values():
        names = [metric.name for metric in table]
        assert len(set(names)) == len(names)
        for metric in table:
            assert metric.description.endswith("."), metric.name
            assert metric.heading, metric.name
            assert metric.computed, metric.name
            assert metric.name.endswith("_s") == (metric.kind == "time"), metric.name


def test_a_metric_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Metric(
        "program_bytes",
        "bytes",
        "per program",
        "Bytes that a program loads and stores.",
        "`bytes / programs`",
        derive=lambda row: row["bytes"] / row["programs"],
    )
    place = [metric.name for metric in KERNELS].index("bytes") + 1
    monkeypatch.setattr(frames, "KERNELS", (*KERNELS[:place], new, *KERNELS[place:]))
    frame = analysis().frame
    assert list(frame.columns)[place] == "program_bytes"
    assert frame["program_bytes"][0] == frame["bytes"][0] / 4
    assert new.text(frame["program_bytes"][0]) == "1.67 kB"
