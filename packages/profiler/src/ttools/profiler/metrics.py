"""The table of metrics: every column of a profile, with its unit, heading and meaning.

The table determines the columns and order of frames, and the headings and formats of reports. The
page `docs/reference/metrics.md` is generated from it; `docs/design/metrics.md` explains how to add
a metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ttools.core.reports import numbers
from ttools.core.reports.numbers import is_known

Row = Mapping[Any, Any]
#: Smaller shares of instructions than this are not described.
_LEAST_INSTRUCTIONS = 0.01
#: Number of kinds of instructions that are described for a line.
_MOST_KINDS = 3
#: The kind of a value, which determines its format.
Kind = Literal[
    "text", "count", "number", "tenths", "hundredths", "time", "share", "amount", "bytes", "shares"
]
#: The requirement for a column, such as a device; empty for columns that every profile has.
Needs = Literal["", "device", "target", "cuda", "measured", "projection", "refusal"]


@dataclass(frozen=True)
class Metric:
    """A column of a table.

    Attributes:
        name: Name of the column, including its unit if it has one: `total_s` is in seconds.
        kind: Kind of the values.
        heading: Heading of the column in reports.
        description: Meaning of the values, in a sentence.
        computed: Method by which the values are obtained, in a phrase.
        derive: Function that computes a value from the preceding columns; None if the value is
            measured.
        needs: Requirement of the column; the column is left out if the requirement is not met.
        short: Heading in narrow tables; `heading` by default.
        phrase: Format of a non-zero value in the description of a source line.
    """

    name: str
    kind: Kind
    heading: str
    description: str
    computed: str
    derive: Callable[[Row], Any] | None = field(default=None, kw_only=True)
    needs: Needs = field(default="", kw_only=True)
    short: str = field(default="", kw_only=True)
    phrase: str = field(default="{}", kw_only=True)

    def text(self, value: Any) -> str:
        """Return the text of a value in reports; empty if it is unknown."""
        return text(value, self.kind)


def text(value: Any, kind: Kind) -> str:
    """Return a number with its unit; empty if it is unknown."""
    if value is None or value != value:
        return ""
    if kind in ("text", "shares"):
        return str(value or "")
    if kind == "count":
        return f"{int(value):,}"
    if kind == "tenths":
        return f"{value:.1f}"
    if kind == "hundredths":
        return f"{value:.2f}"
    if kind == "share":
        return numbers.percent(value)
    if kind == "number":
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    if kind == "time":
        return numbers.seconds(value)
    return numbers.amount(value, "B" if kind == "bytes" else "")


def is_sampled(row: Row) -> bool:
    """Return whether some launches of a kernel were not counted, so that means are estimates."""
    return bool(row.get("told_by") == "estimate" and row["counted"] < row["launches"])


def _ratio(upper: str, lower: str, scale: float = 1.0) -> Callable[[Row], float | None]:
    """Return a function that divides two columns; its result is None if either is unknown."""

    def divide(row: Row) -> float | None:
        above, below = row.get(upper), row.get(lower)
        return above / below / scale if is_known(above) and is_known(below) and below else None

    return divide


def _unless_sampled(derive: Callable[[Row], float | None]) -> Callable[[Row], float | None]:
    return lambda row: None if is_sampled(row) else derive(row)


def _intensity(row: Row) -> float | None:
    reported = row.get("told_by") == "kernel"
    bytes = "unique_bytes" if is_known(row.get("unique_bytes")) or not reported else "bytes"
    return _ratio("flops", bytes)(row)


def _group(
    computed: str, *metrics: Metric | tuple[str, Kind, str, str], needs: Needs = ""
) -> tuple[Metric, ...]:
    """Return metrics that are computed by the same method.

    Args:
        computed: Method of computation, in a phrase; metrics given as a complete `Metric` keep
            their own.
        metrics: Name, kind, heading and description of each metric, or a complete `Metric`.
        needs: Requirement of the columns.
    """
    return tuple(
        metric if isinstance(metric, Metric) else Metric(*metric, computed, needs=needs)
        for metric in metrics
    )


_OF_RUN = "from the run"
_TIMED = "by the CPU's clock around the programs of a launch, or by Proton on a GPU"
_COUNTED = "counted by running the kernel with counters instead of its arithmetic"
_COMPILED = "read from the kernel that Triton's compiler produces for the target"
_OCCUPANCY = "from registers, shared memory and threads of a block, and the limits of the target"
_ROOFLINE = "by the roofline model: counts divided by the peak rates of the device"
_MODEL = "by the model of GPU times that docs/design/counting.md describes"
_CODE = "from the machine code and the trip counts of its loops"
_TRACED = "from the addresses of some programs, and the tile's layout in the compiled kernel"

_KERNEL = _group(
    "from the launch",
    ("kernel", "text", "kernel", "Name of the kernel's function."),
    ("config", "text", "config", "Configuration that an autotuner chose; empty without one."),
)
_MEAN = Metric(
    *("mean_s", "time", "mean", "Mean time of a launch.", "`total_s / launches`"),
    derive=_ratio("total_s", "launches"),
)
_WORK = _group(
    _COUNTED,
    ("programs", "count", "programs", "Number of programs in a launch."),
    ("flops", "amount", "flop", "Floating-point operations of a launch."),
    ("bytes", "bytes", "bytes", "Total number of bytes that the accesses of a launch request."),
    ("unique_bytes", "bytes", "unique", "Number of distinct bytes that a launch touches."),
)
_MASKED = Metric(
    *(
        "masked_share",
        "share",
        "masked off",
        "Share of the lanes of accesses that masks disable.",
    ),
    _COUNTED,
    short="masked",
    phrase="{} of lanes masked off",
)
_BOUND = _group(
    _ROOFLINE,
    ("bound_s", "time", "at least", "Minimum time that the device needs for a launch."),
    Metric(
        *("limited_by", "text", "limited by", "The resource that determines this bound."),
        _ROOFLINE,
        needs="device",
        short="by",
    ),
    needs="device",
)
_PROJECTION = _group(
    _MODEL,
    (
        "projected_s",
        "time",
        "projected",
        "Mean time that a launch is projected to take on the device.",
    ),
    ("projected_low_s", "time", "from", "Lower end of the projection's interval."),
    ("projected_high_s", "time", "to", "Upper end of the projection's interval."),
    (
        "projected_outside",
        "text",
        "less certain: it",
        "How the launch differs from those the model is fitted to.",
    ),
    needs="projection",
)
_REFUSAL = _group(
    "from the limits of the target and the compiled kernel",
    ("cannot_launch", "text", "cannot launch", "Why the target rejects the launch."),
    needs="refusal",
)
_RESOURCES = (
    *_group(
        _COMPILED,
        ("registers", "count", "registers", "Number of registers per thread."),
        ("spilled", "bytes", "spilled", "Bytes of a thread's registers that are kept in memory."),
        ("shared", "bytes", "shared", "Bytes of shared memory per block."),
        needs="target",
    ),
    *_group(
        _OCCUPANCY,
        (
            "occupancy",
            "share",
            "occupancy",
            "Resident warps, as a share of the warps that a multiprocessor can hold.",
        ),
        (
            "occupancy_limited_by",
            "text",
            "occupancy limited by",
            "The resource that limits occupancy.",
        ),
        needs="target",
    ),
)
_PLACE = _group(
    "from the locations in the kernel",
    ("file", "text", "file", "File of the source."),
    ("line", "count", "line", "Line of the source."),
)

KERNELS = (
    *_KERNEL,
    *_group(
        _OF_RUN,
        ("kind", "text", "kind", "`kernel`, or `copy` or `fill` of memory on a GPU."),
        ("launches", "count", "launches", "Number of launches, copies or fills."),
    ),
    Metric("total_s", "time", "total", "Total time of all launches.", _TIMED),
    Metric(
        *("share", "share", "share", "Share of the time of all rows."),
        "`total_s` divided by the sum of the column",
    ),
    _MEAN,
    *_group(
        _TIMED,
        ("min_s", "time", "min", "Time of the shortest launch."),
        ("median_s", "time", "median", "Median time of a launch."),
        ("p95_s", "time", "p95", "95th percentile of the times of launches."),
        ("max_s", "time", "max", "Time of the longest launch."),
    ),
    *_group(
        "timed around calls of `kernel[grid](...)`, without the first call of a compiled kernel",
        (
            "overhead_min_s",
            "time",
            "minimum overhead",
            "Minimum time of a call without the kernel's time.",
        ),
        (
            "overhead_median_s",
            "time",
            "overhead",
            "Median time of a call without the kernel's time.",
        ),
        (
            "overhead_p95_s",
            "time",
            "overhead p95",
            "95th percentile of the times of calls without the kernel's time.",
        ),
    ),
    *_WORK,
    Metric(
        *("other_operations", "text", "other operations"),
        "Comparisons, divisions, elementary functions and library calls of a launch, which are not "
        "flops.",
        _COUNTED,
    ),
    _MASKED,
    Metric(
        *("updates", "number", "updates per element"),
        "Average number of atomic updates per element, in the launch with the most updates.",
        "bytes that atomics request, divided by the distinct bytes among them",
    ),
    Metric(
        *("gflops", "number", "Gflop/s", "10^9 operations per second, by the mean time."),
        "`flops / mean_s / 10^9`",
        derive=_unless_sampled(_ratio("flops", "mean_s", 1e9)),
    ),
    Metric(
        *("gbytes", "number", "GB/s", "10^9 requested bytes per second, by the mean time."),
        "`bytes / mean_s / 10^9`",
        derive=_unless_sampled(_ratio("bytes", "mean_s", 1e9)),
    ),
    Metric(
        *("intensity", "number", "flop per byte", "Operations per unique byte."),
        "`flops / unique_bytes`; `flops / bytes` if the kernel itself reports both",
        derive=_unless_sampled(_intensity),
    ),
    *_group(
        _OF_RUN,
        (
            "told_by",
            "text",
            "source",
            "Source of the figures: `counts`, `estimate`, `kernel` or `cupti`.",
        ),
        ("estimated", "text", "estimated", "Reason why the figures are estimates."),
        (
            "counted",
            "count",
            "counted",
            "Number of launches that were counted; rates are shown only if all were.",
        ),
    ),
    *_group(
        _COUNTED,
        ("flops_min", "amount", "min flop", "Fewest operations of a counted launch."),
        ("flops_max", "amount", "max flop", "Most operations of a counted launch."),
        ("bytes_min", "bytes", "min bytes", "Fewest requested bytes of a counted launch."),
        ("bytes_max", "bytes", "max bytes", "Most requested bytes of a counted launch."),
    ),
    *_BOUND,
    *_group(
        _ROOFLINE,
        ("compute_s", "time", "compute", "Time that the busiest unit needs for a launch."),
        ("compute_unit", "text", "compute unit", "The busiest unit."),
        ("memory_s", "time", "memory", "Time that memory needs for a launch."),
        needs="device",
    ),
    *_RESOURCES,
    *_PLACE,
    Metric(
        *("efficiency", "share", "of the peak"),
        "The bound's share of the mean time; above 100% if data was in the cache before.",
        "`bound_s / mean_s`",
        derive=_ratio("bound_s", "mean_s"),
        needs="measured",
    ),
    *_group(
        _CODE,
        ("instruction_mix", "shares", "instructions", "Share of each kind of instruction."),
        (
            "bank_conflicts",
            "share",
            "bank conflicts",
            "Share of shared-memory wavefronts that are due to conflicts.",
        ),
        ("bank_conflict_lines", "shares", "bank conflicts by line", "This share by source line."),
        needs="cuda",
    ),
    *_REFUSAL,
    *_PROJECTION,
    *_group(
        "`compute_s` or `memory_s`, divided by `mean_s` on the device, else by `projected_s`",
        ("compute_share", "share", "of compute's peak", "Share of the busiest unit's peak rate."),
        ("memory_share", "share", "of memory's peak", "Share of the memory's peak bandwidth."),
        needs="device",
    ),
)

_SIGNATURE = (
    *_KERNEL,
    Metric("grid", "text", "grid", "Number of programs along each axis, such as `64x2`.", _OF_RUN),
    Metric(
        *("specialisation", "text", "specialised"),
        "Difference from the kernel's other specialisations, such as `n: constant 1`.",
        "from the signature, constants and options that the kernel was compiled with",
        short="as",
    ),
    Metric("launches", "count", "launches", "Number of launches with this signature.", _OF_RUN),
)
SIGNATURES = (
    *_SIGNATURE,
    Metric("total_s", "time", "total", "Total time of these launches.", _TIMED),
    _MEAN,
    *_WORK,
    _MASKED,
    *_BOUND,
    Metric("told_by", "text", "source", "`counts`, or `estimate` if not counted.", _OF_RUN),
    *_PROJECTION,
    *_REFUSAL,
    *_RESOURCES,
    Metric(
        *("waves", "number", "waves", "Number of times that the programs fill the device."),
        "programs divided by the number of blocks that all multiprocessors together can hold",
        needs="target",
    ),
)

LINES = (
    _KERNEL[0],
    *_PLACE,
    Metric(
        *("executions", "count", "executions", "Number of executions, over all launches."),
        _COUNTED,
        phrase="{} executions",
    ),
    *(
        Metric(name, "bytes", name, f"Bytes that its {accesses} request.", _COUNTED, phrase=phrase)
        for name, accesses, phrase in (
            ("loaded", "loads", "{} loaded"),
            ("stored", "stores", "{} stored"),
            ("atomic", "atomics", "{} by atomics"),
        )
    ),
    _MASKED,
    Metric("flops", "amount", "flop", "Floating-point operations.", _COUNTED, phrase="{} flop"),
    Metric("operations", "text", "operations", "Operations by unit.", _COUNTED),
    Metric(
        *("time_s", "time", "CPU time", "Estimated time spent on the line."),
        "`time_share` times the time of the kernel's sampled launches",
    ),
    Metric(
        *("time_share", "share", "share of CPU time", "Estimated share of the kernel's time."),
        "by sampling the code that runs while launches are repeated on the CPU",
        short="share",
        phrase="{} of the CPU time",
    ),
    Metric("told_by", "text", "source", "`estimate` if not all launches were counted.", _OF_RUN),
    Metric(
        *("instruction_share", "share", "share of instructions"),
        "The line's share of the instructions that the kernel executes on the GPU.",
        _CODE,
        needs="cuda",
        short="instructions",
    ),
    Metric(
        *("instruction_mix", "shares", "instructions"),
        "This share by kind of instruction.",
        _CODE,
        needs="cuda",
    ),
)

ACCESSES = (
    *_SIGNATURE,
    *_PLACE,
    Metric("kind", "text", "access", "`load`, `store` or `atomic`.", "from the kernel"),
    Metric("bits", "count", "bits", "Bits that a thread accesses at once.", _COMPILED),
    Metric(
        "possible_bits", "count", "possible bits", "Bits that it could access at once.", _TRACED
    ),
    Metric(
        *("sectors_per_request", "hundredths", "sectors per request"),
        "Average number of 32-byte sectors per warp-level memory request.",
        _TRACED,
        short="sectors",
    ),
    *_group(
        _TRACED,
        (
            "ideal_per_request",
            "hundredths",
            "at best",
            "Smallest number of sectors that could hold its bytes.",
        ),
        ("efficiency", "share", "used", "Share of the moved bytes that are necessary."),
        ("active", "share", "active", "Share of the lanes of requests that are active."),
    ),
    Metric(
        *("shared_by", "number", "programs share", "Average number of programs that touch a byte."),
        _TRACED,
        short="shared by",
    ),
    Metric(
        "again",
        "tenths",
        "again",
        "Average number of times that a program touches a byte.",
        _TRACED,
    ),
    Metric("layout", "text", "layout", "Layout of the tile.", _COMPILED),
    Metric("sampled", "text", "sampled", "True if only some tiles were examined.", _TRACED),
)

#: The tables, by the names of the attributes of `ProfileAnalysis` that contain them.
TABLES: Mapping[str, tuple[Metric, ...]] = {
    "frame": KERNELS,
    "signatures": SIGNATURES,
    "lines": LINES,
    "accesses": ACCESSES,
}


def column_names(table: Iterable[Metric], *present: Needs) -> list[str]:
    """Return the columns of a table, in order, whose requirements a profile meets.

    Args:
        table: The metrics of the table.
        present: Requirements that the profile meets.
    """
    return [metric.name for metric in table if not metric.needs or metric.needs in present]


def chosen(table: Iterable[Metric], *names: str) -> list[Metric]:
    """Return the metrics with the given names, in the order of the names."""
    metrics = by_name(table)
    return [metrics[name] for name in names]


def phrases(row: Row, *names: str, exact: bool = False) -> list[str]:
    """Describe the work of a source line, with a phrase for each metric that is not zero.

    Args:
        row: A row of the frame of lines.
        names: Names of the metrics, in the order of the phrases.
        exact: If True, numbers are written with all digits.
    """
    texts = []
    for metric in chosen(LINES, *names):
        value = row.get(metric.name)
        if not value or value != value:
            continue
        text = metric.text(value)
        if exact and metric.kind in ("bytes", "amount"):
            text = f"{value:,.0f}{' bytes' if metric.kind == 'bytes' else ''}"
        texts.append(metric.phrase.format(text))
    return texts


def by_name(table: Iterable[Metric]) -> dict[str, Metric]:
    """Return the metrics of a table by the names of their columns."""
    return {metric.name: metric for metric in table}


#: Columns of kernels that pages and notebooks show, except for empty columns.
_SHOWN = (
    *("kind", "launches", "total_s", "share", "mean_s", "projected_s", "projected_low_s"),
    *("projected_high_s", "min_s", "median_s", "p95_s", "max_s"),
    *("overhead_median_s", "flops", "bytes", "unique_bytes", "masked_share", "gflops", "gbytes"),
    *("bound_s", "estimated", "limited_by", "efficiency", "cannot_launch"),
    *("projected_outside", "registers", "spilled", "shared"),
    *("bank_conflicts", "occupancy", "compute_share", "memory_share"),
)
#: The columns among these that a page shows at first, because they fit a window of usual width.
FIRST_COLUMNS = frozenset(
    {
        *("kind", "launches", "total_s", "share", "projected_s", "flops", "bytes"),
        *("bound_s", "estimated", "limited_by", "efficiency", "cannot_launch"),
        *("occupancy", "compute_share", "memory_share"),
    }
)


_TIMES = ("total_s", "mean_s", "median_s", "min_s", "max_s", "p95_s")


def shown_columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns that have values.

    `kind` is left out if all rows are kernels. A time is left out if it equals an earlier time in
    every row, for example the mean if every row has a single launch, because it then equals the
    total.
    """
    left_out = {"kind"} if all(row["kind"] == "kernel" for row in rows) else set()
    distinct: set[tuple[Any, ...]] = set()
    for name in _TIMES:
        values = tuple(row.get(name) for row in rows)
        left_out |= {name} if values in distinct else set()
        distinct.add(values)
    return [
        name
        for name in _SHOWN
        if name not in left_out and any(row.get(name) is not None for row in rows)
    ]


def line_facts(row: Row) -> str:
    """Describe the work of a row of the frame of lines, and its share of the time."""
    done = phrases(row, "loaded", "stored", "atomic", "masked_share", "operations")
    often = f"{row['executions']:,} times" if row["executions"] else ""
    work = ": ".join(filter(None, (often, "; ".join(done))))
    spent = "".join(f"about {phrase}" for phrase in phrases(row, "time_share"))
    return "; ".join(filter(None, (spent, line_instructions(row), work)))


def line_instructions(row: Row) -> str:
    """Describe a line's share of the kernel's instructions, with the most frequent kinds."""
    share = row.get("instruction_share")
    if share is None or not is_known(share) or share < _LEAST_INSTRUCTIONS:
        return ""
    kinds = [
        kind if f"{part:.0%}" == f"{share:.0%}" else f"{part:.0%} {kind}"
        for kind, part in row["instruction_mix"].items()
        if part >= _LEAST_INSTRUCTIONS
    ]
    of_kinds = f" ({', '.join(kinds[:_MOST_KINDS])})" if kinds else ""
    return f"{share:.0%} of the instructions{of_kinds}"


def finite(data: Any) -> Any:
    """Return data with NaN replaced by None, because JSON has no NaN."""
    if isinstance(data, Mapping):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and math.isnan(data) else data


def reference_text() -> str:
    """Return the tables of the reference page, in Markdown."""
    titles = {
        "frame": "Kernels: `analysis.frame`",
        "signatures": "Launch signatures: `analysis.signatures`",
        "lines": "Lines of source: `analysis.lines`",
        "accesses": "Accesses to memory: `analysis.accesses`",
    }
    parts = []
    for name, table in TABLES.items():
        rows = [
            f"| `{m.name}` | {m.heading} | {_UNITS[m.kind]} | {m.description} | "
            f"{m.computed}{_ONLY[m.needs]} |"
            for m in table
        ]
        head = "| column | heading | unit | meaning | computed |\n|---|---|---|---|---|"
        parts.append(f"## {titles[name]}\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


_UNITS: Mapping[Kind, str] = {
    "text": "text",
    "count": "number",
    "number": "number",
    "tenths": "number",
    "hundredths": "number",
    "time": "seconds",
    "share": "share of 1",
    "amount": "number",
    "bytes": "bytes",
    "shares": "shares of 1 by name",
}
_ONLY: Mapping[Needs, str] = {
    "": "",
    "device": "; with a device",
    "target": "; with a target",
    "cuda": "; with an NVIDIA target",
    "measured": "; for a run on the device",
    "projection": "; for a run on the CPU, with an NVIDIA device",
    "refusal": "; for a run on the CPU, if the target rejects a launch",
}
