"""The table of metrics: every column of a profile, with its unit, heading and meaning.

Frames take their columns and order from here, reports their headings and formats, and
`docs/reference/metrics.md` is generated from it. `docs/design/metrics.md` explains how to add one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ttools.core.reports import numbers
from ttools.core.reports.numbers import is_known

Row = Mapping[Any, Any]
#: The kind of a number, which decides its format.
Kind = Literal[
    "text", "count", "number", "tenths", "hundredths", "time", "share", "amount", "bytes", "shares"
]
#: Requirements for a column.
Needs = Literal["", "device", "target", "cuda", "measured", "projection", "refusal"]


@dataclass(frozen=True)
class Metric:
    """A column of a table.

    Attributes:
        name: Name of the column, with its unit if it has one: `total_s` is in seconds.
        kind: Kind of its values.
        heading: Heading in reports.
        description: Its meaning, in a sentence.
        computed: How it is obtained, in a sentence.
        derive: Computes it from the columns before it; None if it is measured.
        needs: A requirement; the column is left out if it is not met.
        short: Heading where there is little room; `heading` by default.
        phrase: Text of a value other than zero in a sentence on a source line.
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
    """Return whether not all launches of a kernel were counted, so that means say nothing."""
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
    says = row.get("told_by") == "kernel"
    bytes = "unique_bytes" if is_known(row.get("unique_bytes")) or not says else "bytes"
    return _ratio("flops", bytes)(row)


def _group(
    computed: str, *metrics: Metric | tuple[str, Kind, str, str], needs: Needs = ""
) -> tuple[Metric, ...]:
    """Return metrics that are computed alike.

    Args:
        computed: How they are computed, in a sentence; complete metrics have their own.
        metrics: Name, kind, heading and description of each, or the complete metric.
        needs: Requirement for their columns.
    """
    return tuple(
        each if isinstance(each, Metric) else Metric(*each, computed, needs=needs)
        for each in metrics
    )


_OF_RUN = "from the run"
_TIMED = "by the clock of the CPU around its programs, or by Proton on a GPU"
_COUNTED = "counted by running the kernel with counters in place of its work"
_COMPILED = "read from what Triton's compiler makes of the kernel for the target"
_OCCUPANCY = "from registers, shared memory and threads of a block, and the limits of the target"
_ROOFLINE = "by the roofline: counts divided by the rates of the device"
_MODEL = "by the model that docs/reference/profile_figures.md describes"
_CODE = "from the machine code, times the iterations of its loops"
_TRACED = "from the addresses of some programs and the layout that the compiler gives the tile"

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
    ("programs", "count", "programs", "Programs of a launch."),
    ("flops", "amount", "flop", "Floating-point operations of a launch."),
    ("bytes", "bytes", "bytes", "Bytes that a launch loads and stores, each access counted."),
    ("unique_bytes", "bytes", "unique", "Bytes that a launch touches, each counted once."),
)
_MASKED = Metric(
    *(
        "masked_share",
        "share",
        "masked off",
        "Share of the lanes of accesses that masks hold back.",
    ),
    _COUNTED,
    short="masked",
    phrase="{} of lanes masked off",
)
_BOUND = _group(
    _ROOFLINE,
    ("bound_s", "time", "at least", "Least time that the device needs for a launch."),
    Metric(
        *("limited_by", "text", "limited by", "The resource that this bound comes from."),
        _ROOFLINE,
        needs="device",
        short="by",
    ),
    needs="device",
)
_PROJECTION = _group(
    _MODEL,
    ("projected_s", "time", "projected", "Mean time that a launch would take on the device."),
    ("projected_low_s", "time", "from", "Where the interval of the projection begins."),
    ("projected_high_s", "time", "to", "Where the interval of the projection ends."),
    ("projected_outside", "text", "less sure: it", "How it differs from what the model knows."),
    needs="projection",
)
_REFUSAL = _group(
    "from the limits of the target and what was compiled",
    ("cannot_launch", "text", "cannot launch", "Why the target refuses the launch."),
    needs="refusal",
)
_RESOURCES = (
    *_group(
        _COMPILED,
        ("registers", "count", "registers", "Registers of a thread."),
        ("spilled", "bytes", "spilled", "Bytes of registers kept in memory, of a thread."),
        ("shared", "bytes", "shared", "Bytes of shared memory of a block."),
        needs="target",
    ),
    *_group(
        _OCCUPANCY,
        ("occupancy", "share", "occupancy", "Share of a multiprocessor's warps that it can hold."),
        ("occupancy_limited_by", "text", "occupancy limited by", "What keeps it from more."),
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
        ("launches", "count", "launches", "How often it was launched, copied or filled."),
    ),
    Metric("total_s", "time", "total", "Time of all launches together.", _TIMED),
    Metric(
        *("share", "share", "share", "Share of the time of all rows."),
        "`total_s` divided by the sum of the column",
    ),
    _MEAN,
    *_group(
        _TIMED,
        ("min_s", "time", "min", "Time of the shortest launch."),
        ("median_s", "time", "median", "Half of the launches are shorter."),
        ("p95_s", "time", "p95", "Of twenty launches nineteen are shorter."),
        ("max_s", "time", "max", "Time of the longest launch."),
    ),
    *_group(
        "timed around calls of `kernel[grid](...)`, without the first call of a compiled kernel",
        (
            "overhead_min_s",
            "time",
            "least overhead",
            "Least time that a call adds to the kernel's.",
        ),
        ("overhead_median_s", "time", "overhead", "Half of the calls add less time."),
        ("overhead_p95_s", "time", "overhead p95", "Of twenty calls nineteen add less time."),
    ),
    *_WORK,
    _MASKED,
    Metric(
        *("updates", "number", "updates per element"),
        "How often atomics of a line update an element, in the launch where they do most.",
        "bytes that atomics request, divided by the different bytes among them",
    ),
    Metric(
        *("gflops", "number", "Gflop/s", "10^9 operations per second of the mean time."),
        "`flops / mean_s / 10^9`",
        derive=_unless_sampled(_ratio("flops", "mean_s", 1e9)),
    ),
    Metric(
        *("gbytes", "number", "GB/s", "10^9 requested bytes per second of the mean time."),
        "`bytes / mean_s / 10^9`",
        derive=_unless_sampled(_ratio("bytes", "mean_s", 1e9)),
    ),
    Metric(
        *("intensity", "number", "flop per byte", "Operations per unique byte."),
        "`flops / unique_bytes`; `flops / bytes` where the kernel itself reports both",
        derive=_unless_sampled(_intensity),
    ),
    *_group(
        _OF_RUN,
        ("told_by", "text", "told by", "Who says it: `counts`, `estimate`, `kernel`, `cupti`."),
        ("estimated", "text", "estimated", "Why what a launch does is an estimate."),
        ("counted", "count", "counted", "How many launches were counted; rates need all."),
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
        ("compute_unit", "text", "compute unit", "The unit that has most to do."),
        ("memory_s", "time", "memory", "Time that memory needs for a launch."),
        needs="device",
    ),
    *_RESOURCES,
    *_PLACE,
    Metric(
        *("efficiency", "share", "of the peak"),
        "The bound's share of the mean time; above 100% where the cache held data before.",
        "`bound_s / mean_s`",
        derive=_ratio("bound_s", "mean_s"),
        needs="measured",
    ),
    *_group(
        _CODE,
        ("instruction_mix", "shares", "instructions", "Share of each kind of instruction."),
        ("bank_conflicts", "share", "bank conflicts", "Share of shared memory's wavefronts."),
        ("bank_conflict_lines", "shares", "bank conflicts by line", "The same, by line."),
        needs="cuda",
    ),
    *_REFUSAL,
    *_PROJECTION,
    *_group(
        "`compute_s` or `memory_s`, divided by `mean_s` on the device, else by `projected_s`",
        ("compute_share", "share", "of compute's peak", "Share of the busiest unit's peak."),
        ("memory_share", "share", "of memory's peak", "Share of the memory's peak."),
        needs="device",
    ),
)

_SIGNATURE = (
    *_KERNEL,
    Metric("grid", "text", "grid", "Programs along each axis, as `64x2`.", _OF_RUN),
    Metric(
        *("specialisation", "text", "specialised"),
        "What the kernel's other specialisations do not have, as `n: constant 1`.",
        "from the signature, constants and options that the kernel was compiled with",
        short="as",
    ),
    Metric("launches", "count", "launches", "How many launches these are.", _OF_RUN),
)
SIGNATURES = (
    *_SIGNATURE,
    Metric("total_s", "time", "total", "Time of these launches together.", _TIMED),
    _MEAN,
    *_WORK,
    _MASKED,
    *_BOUND,
    Metric("told_by", "text", "told by", "`counts`, or `estimate` if not counted.", _OF_RUN),
    *_PROJECTION,
    *_REFUSAL,
    *_RESOURCES,
    Metric(
        *("waves", "number", "waves", "How often the programs fill the device."),
        "programs divided by the blocks that all multiprocessors hold at once",
        needs="target",
    ),
)

LINES = (
    _KERNEL[0],
    *_PLACE,
    Metric(
        *("executions", "count", "executions", "How often it runs, over all launches."),
        _COUNTED,
        short="times",
        phrase="{} executions",
    ),
    *(
        Metric(name, "bytes", name, f"Bytes that its {what} request.", _COUNTED, phrase=phrase)
        for name, what, phrase in (
            ("loaded", "loads", "{} loaded"),
            ("stored", "stores", "{} stored"),
            ("atomic", "atomics", "{} by atomics"),
        )
    ),
    _MASKED,
    Metric("flops", "amount", "flop", "Its floating-point operations.", _COUNTED, phrase="{} flop"),
    Metric("operations", "text", "operations", "Operations by unit.", _COUNTED),
    Metric(
        *("time_s", "time", "time", "Seconds spent on the line, an estimate."),
        "`time_share` times the time of the kernel's sampled launches",
    ),
    Metric(
        *("time_share", "share", "share of time", "Share of the kernel's time, an estimate."),
        "by samples of where the code is while launches run on the CPU",
        short="share",
        phrase="{} of the time",
    ),
    Metric("told_by", "text", "told by", "`estimate` if not all launches were counted.", _OF_RUN),
)

ACCESSES = (
    *_SIGNATURE,
    *_PLACE,
    Metric("kind", "text", "access", "`load`, `store` or `atomic`.", "from the kernel"),
    Metric("bits", "count", "bits", "Bits that a thread accesses at once.", _COMPILED),
    Metric("possible_bits", "count", "possible bits", "Bits that it could access.", _TRACED),
    Metric(
        *("sectors_per_request", "hundredths", "sectors per request"),
        "Sectors of 32 bytes that a request of a warp moves, on average.",
        _TRACED,
        short="sectors",
    ),
    *_group(
        _TRACED,
        ("ideal_per_request", "hundredths", "at best", "Fewest sectors that could hold its bytes."),
        ("efficiency", "share", "used", "Share of the bytes moved that could not be left out."),
        ("active", "share", "active", "Share of the requests' lanes in use."),
    ),
    Metric(
        *("shared_by", "number", "programs share", "How many programs touch a byte, on average."),
        _TRACED,
        short="shared by",
    ),
    Metric("again", "tenths", "again", "How often a program touches a byte.", _TRACED),
    Metric("layout", "text", "layout", "Layout of the tile.", _COMPILED),
    Metric("sampled", "text", "sampled", "Whether only some tiles were looked at.", _TRACED),
)

#: The tables by the name that `ProfileAnalysis` has for each.
TABLES: Mapping[str, tuple[Metric, ...]] = {
    "frame": KERNELS,
    "signatures": SIGNATURES,
    "lines": LINES,
    "accesses": ACCESSES,
}


def column_names(table: Iterable[Metric], *present: Needs) -> list[str]:
    """Return the columns of a table, in order, of which a profile has what they need."""
    return [metric.name for metric in table if not metric.needs or metric.needs in present]


def chosen(table: Iterable[Metric], *names: str) -> list[Metric]:
    """Return the metrics of these names, in the order of the names."""
    known = by_name(table)
    return [known[name] for name in names]


def phrases(row: Row, *names: str, exact: bool = False) -> list[str]:
    """Return what a line of source does, a phrase for each of its metrics that is not zero.

    Args:
        row: Of the frame of lines.
        names: The metrics.
        exact: Whether numbers are written with all digits.
    """
    found = []
    for metric in chosen(LINES, *names):
        value = row.get(metric.name)
        if not value or value != value:
            continue
        text = metric.text(value)
        if exact and metric.kind in ("bytes", "amount"):
            text = f"{value:,.0f}{' bytes' if metric.kind == 'bytes' else ''}"
        found.append(metric.phrase.format(text))
    return found


def by_name(table: Iterable[Metric]) -> dict[str, Metric]:
    """Return the metrics of a table by the names of their columns."""
    return {metric.name: metric for metric in table}


#: Columns of kernels that pages and notebooks show, those of which there is nothing left out.
_SHOWN = (
    *("kind", "launches", "total_s", "share", "mean_s", "min_s", "median_s", "p95_s", "max_s"),
    *("overhead_median_s", "flops", "bytes", "unique_bytes", "masked_share", "gflops", "gbytes"),
    *("bound_s", "estimated", "limited_by", "efficiency", "projected_s", "projected_low_s"),
    *("projected_high_s", "projected_outside", "cannot_launch", "registers", "spilled", "shared"),
    *("bank_conflicts", "occupancy", "compute_share", "memory_share"),
)


def shown_columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns of which something is known; the kind only where rows differ in it."""
    alike = all(row["kind"] == "kernel" for row in rows)
    return [
        name
        for name in _SHOWN
        if any(row.get(name) is not None for row in rows) and not (alike and name == "kind")
    ]


def line_facts(row: Row) -> str:
    """Return what a line of the line frame does, and its share of the time."""
    done = phrases(row, "loaded", "stored", "atomic", "masked_share", "operations")
    often = f"{row['executions']:,} times" if row["executions"] else ""
    work = ": ".join(filter(None, (often, "; ".join(done))))
    spent = "".join(f"about {phrase}" for phrase in phrases(row, "time_share"))
    return "; ".join(filter(None, (spent, work)))


def finite(data: Any) -> Any:
    """Return data without NaN, which neither JSON nor readers know."""
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
            f"| `{each.name}` | {each.heading} | {_UNITS[each.kind]} | {each.description} | "
            f"{each.computed}{_ONLY[each.needs]} |"
            for each in table
        ]
        head = (
            "| column | heading | unit | what it says | how it is computed |\n|---|---|---|---|---|"
        )
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
    "cuda": "; with a target of NVIDIA's",
    "measured": "; for a run on the device",
    "projection": "; for a run on the CPU, with a device that the model knows",
    "refusal": "; for a run on the CPU, where the target refuses a launch",
}
