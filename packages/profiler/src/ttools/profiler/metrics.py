"""The table of metrics: every column of a profile, with its unit, its heading and its meaning.

Frames take their columns and order from here, reports take headings and formats, and
`docs/reference/metrics.md` is generated from it. How to add one is in `docs/design/metrics.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ttools.core.reports import numbers
from ttools.core.reports.numbers import is_known

Row = Mapping[Any, Any]
#: What a number is: how it is written follows from it.
Kind = Literal["text", "count", "number", "decimal", "time", "share", "amount", "bytes", "shares"]
#: What a profile must have for a column to be there.
Needs = Literal["", "device", "target", "cuda", "measured", "projection", "refusal"]


@dataclass(frozen=True)
class Metric:
    """A column of a table.

    Attributes:
        name: of the column, with its unit where it has one: `total_s` is in seconds.
        kind: what its values are.
        heading: as people read it.
        description: what it says, in a sentence.
        computed: how it is obtained, in a sentence.
        derive: computes it from the columns before it; None where it is measured.
        needs: what it takes; columns without it are left out.
        short: the heading where there is little room; the heading by default.
    """

    name: str
    kind: Kind
    heading: str
    description: str
    computed: str
    derive: Callable[[Row], Any] | None = field(default=None, kw_only=True)
    needs: Needs = field(default="", kw_only=True)
    short: str = field(default="", kw_only=True)

    def text(self, value: Any) -> str:
        """Return a value of the column as reports write it; empty for nothing known."""
        return text(value, self.kind)


def text(value: Any, kind: Kind) -> str:
    """Return a number with its unit; empty for nothing known."""
    if value is None or kind in ("text", "shares"):
        return str(value or "")
    if kind == "count":
        return f"{int(value):,}"
    if kind == "decimal":
        return f"{value:.2f}"
    if kind == "share":
        return numbers.percent(value)
    if kind == "number":
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    if kind == "time":
        return numbers.seconds(value)
    return numbers.amount(value, "B" if kind == "bytes" else "")


def is_sampled(row: Row) -> bool:
    """Return whether not all launches of a kernel were counted: nothing follows from the means."""
    return bool(row.get("told_by") == "estimate" and row["counted"] < row["launches"])


def _ratio(upper: str, lower: str, scale: float = 1.0) -> Callable[[Row], float | None]:
    """Return a function that divides two columns; its result is None where either is unknown."""

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


_TIMED = "by the clock of the CPU around its programs, or by Proton on a GPU"
_COUNTED = "counted by running the kernel with counters in place of its work"
_COMPILED = "read from what Triton's compiler makes of the kernel for the target"
_ROOFLINE = "by the roofline: counts divided by the rates of the device"
_MODEL = "by the model of instructions, waits and memory that docs/reference/profile_figures.md has"
_CODE = "machine code times the iterations of its loops"
_TRACED = "from the addresses of some programs and the layout that the compiler gives the tile"

_KERNEL = (
    Metric("kernel", "text", "kernel", "Name of the kernel's function.", "from the launch"),
    Metric(
        "config",
        "text",
        "config",
        "Configuration that an autotuner chose; empty without one.",
        "from the launch",
    ),
)
_WORK = (
    Metric(
        "programs",
        "count",
        "programs",
        "Programs of a launch.",
        "counted by running the kernel with counters in place of its work; the mean of launches",
    ),
    Metric("flops", "amount", "flop", "Floating-point operations of a launch.", _COUNTED),
    Metric(
        "bytes",
        "bytes",
        "bytes",
        "Bytes that a launch loads and stores, each access counted.",
        _COUNTED,
    ),
    Metric(
        "unique_bytes",
        "bytes",
        "unique",
        "Bytes that a launch touches, each byte counted once for loads and once for stores.",
        "from the union of all addresses that the counting run notes",
    ),
    Metric(
        "masked_share",
        "share",
        "masked off",
        "Share of the lanes of loads, stores and atomics that masks hold back.",
        _COUNTED,
        short="masked",
    ),
)
_BOUND = (
    Metric(
        "bound_s",
        "time",
        "at least",
        "Time that the device needs for a launch at least.",
        _ROOFLINE,
        needs="device",
    ),
    Metric(
        "limited_by",
        "text",
        "limited by",
        "The resource that this bound comes from.",
        _ROOFLINE,
        needs="device",
        short="by",
    ),
)
_PROJECTION = (
    Metric(
        "projected_s",
        "time",
        "projected",
        "Mean time that a launch is projected to take on the device, from its machine code.",
        _MODEL,
        needs="projection",
    ),
    Metric(
        "projected_low_s",
        "time",
        "from",
        "Where the interval of the projection begins.",
        _MODEL,
        needs="projection",
    ),
    Metric(
        "projected_high_s",
        "time",
        "to",
        "Where the interval of the projection ends.",
        _MODEL,
        needs="projection",
    ),
    Metric(
        "projected_outside",
        "text",
        "less sure: it",
        "In what the kernel differs from those that the model was fitted to.",
        _MODEL,
        needs="projection",
    ),
)
_REFUSAL = (
    Metric(
        "cannot_launch",
        "text",
        "cannot launch",
        "Why the target refuses the launch.",
        "from the limits of the target and what was compiled",
        needs="refusal",
    ),
)
_RESOURCES = (
    Metric(
        *("registers", "count", "registers", "Registers of a thread."), _COMPILED, needs="target"
    ),
    Metric(
        "spilled",
        "bytes",
        "spilled",
        "Bytes of registers kept in memory, of a thread.",
        _COMPILED,
        needs="target",
    ),
    Metric(
        "shared",
        "bytes",
        "shared",
        "Bytes of shared memory of a block.",
        _COMPILED,
        needs="target",
    ),
    Metric(
        "occupancy",
        "share",
        "occupancy",
        "Share of the warps that a multiprocessor can hold which this kernel lets it hold.",
        "from registers, shared memory and threads of a block, and the limits of the target",
        needs="target",
    ),
    Metric(
        "occupancy_limited_by",
        "text",
        "occupancy limited by",
        "The resource that keeps occupancy from being higher.",
        "from registers, shared memory and threads of a block, and the limits of the target",
        needs="target",
    ),
)
_PLACE = (
    Metric("file", "text", "file", "File of the source.", "from the locations in the kernel"),
    Metric("line", "count", "line", "Line of the source.", "from the locations in the kernel"),
)

_RANGES: tuple[tuple[str, Kind, str, str], ...] = (
    ("flops", "amount", "flop", "operations"),
    ("bytes", "bytes", "bytes", "requested bytes"),
)

KERNELS = (
    *_KERNEL,
    Metric(
        "kind",
        "text",
        "kind",
        "`kernel`, or `copy` and `fill` of memory on a GPU, whose names are their directions.",
        "from the run",
    ),
    Metric(
        "launches",
        "count",
        "launches",
        "How often it was launched, or memory copied or filled.",
        "counted",
    ),
    Metric("total_s", "time", "total", "Time of all launches together.", _TIMED),
    Metric(
        "share",
        "share",
        "share",
        "Share of the time of all rows.",
        "`total_s` divided by the sum of the column",
    ),
    Metric(
        "mean_s",
        "time",
        "mean",
        "Mean time of a launch.",
        "`total_s / launches`",
        derive=_ratio("total_s", "launches"),
    ),
    Metric("min_s", "time", "min", "Time of the shortest launch.", _TIMED),
    Metric("median_s", "time", "median", "Half of the launches are shorter.", _TIMED),
    Metric("p95_s", "time", "p95", "Of twenty launches nineteen are shorter.", _TIMED),
    Metric("max_s", "time", "max", "Time of the longest launch.", _TIMED),
    *(
        Metric(
            f"overhead_{name}_s",
            "time",
            heading,
            f"What the host takes for `kernel[grid](...)` beside the kernel's own time, {said}.",
            "timed around calls; the first call of a compiled kernel is left out",
        )
        for name, heading, said in (
            ("min", "least overhead", "at least"),
            ("median", "overhead", "in the median"),
            ("p95", "overhead p95", "in nineteen of twenty calls at most"),
        )
    ),
    *_WORK,
    Metric(
        "updates",
        "number",
        "updates per element",
        "How often atomics of a line update an element, in the launch where they do most.",
        "bytes that atomics request, divided by the different bytes among them",
    ),
    Metric(
        "gflops",
        "number",
        "Gflop/s",
        "10^9 operations per second of the mean time.",
        "`flops / mean_s / 10^9`",
        derive=_unless_sampled(_ratio("flops", "mean_s", 1e9)),
    ),
    Metric(
        "gbytes",
        "number",
        "GB/s",
        "10^9 requested bytes per second of the mean time.",
        "`bytes / mean_s / 10^9`",
        derive=_unless_sampled(_ratio("bytes", "mean_s", 1e9)),
    ),
    Metric(
        "intensity",
        "number",
        "flop per byte",
        "Operations per unique byte.",
        "`flops / unique_bytes`; `flops / bytes` where the kernel itself reports both",
        derive=_unless_sampled(_intensity),
    ),
    Metric(
        "told_by",
        "text",
        "told by",
        "Who says what a launch does: `counts`, `estimate`, `kernel`, whose `launch_metadata` wins "
        "over counts, or `cupti`, which records the bytes of copies and fills.",
        "from the run",
    ),
    Metric(
        "estimated",
        "text",
        "estimated",
        "Why what a launch does is an estimate.",
        "from the run",
    ),
    Metric(
        "counted",
        "count",
        "counted",
        "How many of the launches were counted; rates and bounds are missing if not all were.",
        "counted",
    ),
    *(
        Metric(f"{name}_{end}", kind, f"{end} {heading}", f"{said} of a counted launch.", _COUNTED)
        for name, kind, heading, noun in _RANGES
        for end, said in (("min", f"Fewest {noun}"), ("max", f"Most {noun}"))
    ),
    *_BOUND,
    Metric(
        "compute_s",
        "time",
        "compute",
        "Time that the busiest unit needs for a launch.",
        _ROOFLINE,
        needs="device",
    ),
    Metric(
        "compute_unit",
        "text",
        "compute unit",
        "The unit that has most to do.",
        _ROOFLINE,
        needs="device",
    ),
    Metric(
        "memory_s",
        "time",
        "memory",
        "Time that memory needs for a launch.",
        _ROOFLINE,
        needs="device",
    ),
    *_RESOURCES,
    *_PLACE,
    Metric(
        "efficiency",
        "share",
        "of the peak",
        "The bound's share of the mean time; above 100% where the cache held data of launches "
        "before.",
        "`bound_s / mean_s`",
        derive=_ratio("bound_s", "mean_s"),
        needs="measured",
    ),
    Metric(
        "instruction_mix",
        "shares",
        "instructions",
        "Share of each kind of instruction that warps execute, in the largest launches.",
        _CODE,
        needs="cuda",
    ),
    Metric(
        "bank_conflicts",
        "share",
        "bank conflicts",
        "Share of the wavefronts of shared memory that conflicts of its banks take.",
        _CODE,
        needs="cuda",
    ),
    Metric(
        "bank_conflict_lines",
        "shares",
        "bank conflicts by line",
        'The same by line of source, as `{"k.py:3": 0.2}`.',
        _CODE,
        needs="cuda",
    ),
    *_REFUSAL,
    *_PROJECTION,
    Metric(
        "compute_share",
        "share",
        "of compute's peak",
        "Share of the peak of its busiest unit that a launch reaches, measured or projected.",
        "`compute_s / mean_s` on the device, else `compute_s / projected_s`",
        needs="device",
    ),
    Metric(
        "memory_share",
        "share",
        "of memory's peak",
        "Share of the memory's peak that a launch reaches, measured or projected.",
        "`memory_s / mean_s` on the device, else `memory_s / projected_s`",
        needs="device",
    ),
)

_SIGNATURE = (
    *_KERNEL,
    Metric("grid", "text", "grid", "Programs along each axis, as `64x2`.", "from the launch"),
    Metric(
        "specialisation",
        "text",
        "specialised",
        "What the specialisation has that the kernel's others have not, as `n: constant 1`.",
        "from the signature, constants and options that the kernel was compiled with",
        short="as",
    ),
    Metric("launches", "count", "launches", "How many launches these are.", "counted"),
)
SIGNATURES = (
    *_SIGNATURE,
    Metric("total_s", "time", "total", "Time of these launches together.", _TIMED),
    Metric(
        "mean_s",
        "time",
        "mean",
        "Mean time of a launch.",
        "`total_s / launches`",
        derive=_ratio("total_s", "launches"),
    ),
    *_WORK,
    *_BOUND,
    Metric(
        "told_by",
        "text",
        "told by",
        "`counts`, or `estimate` for launches that were not counted themselves, as values in "
        "memory decide what they do.",
        "from the run",
    ),
    *_PROJECTION,
    *_REFUSAL,
    *_RESOURCES,
    Metric(
        "waves",
        "number",
        "waves",
        "How often the programs fill the device.",
        "programs divided by the blocks that all multiprocessors hold at once",
        needs="target",
    ),
)

LINES = (
    _KERNEL[0],
    *_PLACE,
    Metric(
        "executions",
        "amount",
        "executions",
        "How often the line runs, in all programs, iterations and launches.",
        _COUNTED,
        short="times",
    ),
    Metric("loaded", "bytes", "loaded", "Bytes that its loads request.", _COUNTED),
    Metric("stored", "bytes", "stored", "Bytes that its stores request.", _COUNTED),
    Metric("atomic", "bytes", "atomic", "Bytes that its atomics request.", _COUNTED),
    _WORK[-1],
    Metric("flops", "amount", "flop", "Floating-point operations of the line.", _COUNTED),
    Metric(*("operations", "text", "operations", "How many operations each unit does."), _COUNTED),
    Metric(
        "time_s",
        "time",
        "time",
        "Seconds spent on the line, an estimate.",
        "`time_share` times the time of the kernel's sampled launches",
    ),
    Metric(
        "time_share",
        "share",
        "share of time",
        "Share of the kernel's time, an estimate.",
        "by samples of where the code is, taken while launches run on the CPU",
        short="share",
    ),
    Metric(
        "told_by",
        "text",
        "told by",
        "`estimate` for kernels of which not every launch was counted, else `counts`.",
        "from the run",
    ),
)

ACCESSES = (
    *_SIGNATURE,
    *_PLACE,
    Metric("kind", "text", "access", "`load`, `store` or `atomic`.", "from the kernel"),
    Metric(
        "bits",
        "count",
        "bits",
        "Bits that a thread accesses at once.",
        _COMPILED,
    ),
    Metric(
        "possible_bits",
        "count",
        "possible bits",
        "Bits that a thread could access at once.",
        _TRACED,
    ),
    Metric(
        "sectors_per_request",
        "decimal",
        "sectors per request",
        "Sectors of 32 bytes that a request of a warp moves, on average.",
        _TRACED,
        short="sectors",
    ),
    Metric(
        "ideal_per_request",
        "decimal",
        "at best",
        "Fewest sectors that could hold the bytes of a request, on average.",
        _TRACED,
    ),
    Metric(
        "efficiency",
        "share",
        "used",
        "Share of the bytes moved that could not be left out.",
        _TRACED,
    ),
    Metric("active", "share", "active", "Share of the requests' lanes in use.", _TRACED),
    Metric(
        "shared_by",
        "number",
        "programs share",
        "By how many programs a byte is touched, on average.",
        _TRACED,
        short="shared by",
    ),
    Metric(
        "again",
        "number",
        "again",
        "How often a program touches a byte that it touches.",
        _TRACED,
    ),
    Metric("layout", "text", "layout", "Layout of the tile.", _COMPILED),
    Metric(
        "sampled",
        "text",
        "sampled",
        "Whether only some of the tiles were looked at.",
        _TRACED,
    ),
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


def by_name(table: Iterable[Metric]) -> dict[str, Metric]:
    """Return the metrics of a table by the names of their columns."""
    return {metric.name: metric for metric in table}


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
    "decimal": "number",
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
