"""A profile as text: a block per kernel, which begins with how near it is to the speed of light."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.console import RenderableType

from ttools.cli.blocks import MOST_SHOWN, block, left_out, paragraph, table
from ttools.cli.profile.kernel_names import readable_name
from ttools.core.location import shown_path
from ttools.core.reports.numbers import (
    amount,
    is_known,
    number,
    percent,
    rounded_percent,
    seconds,
)
from ttools.core.reports.report import counted
from ttools.profiler.metrics import (
    ACCESSES,
    LINES,
    SIGNATURES,
    Metric,
    Row,
    chosen,
    is_sampled,
)

if TYPE_CHECKING:
    from ttools.core.compilation.inspection import Inspection
    from ttools.profiler import ProfileAnalysis
    from ttools.profiler.report.advice import Hint

_ALL = "--format csv"
_ALL_SIGNATURES = "--format json"
#: Of instructions: smaller shares are left out.
_LEAST_SHOWN = 0.02


def blocks(profiled: ProfileAnalysis, *, lines: bool) -> Iterator[RenderableType]:
    """A block per kernel and configuration, those that took longest; then what the terms mean.

    Args:
        profiled: a run that has ended.
        lines: whether to tell what each line of source does.
    """
    rows = profiled.frame.to_dict("records")
    total = sum(row["total_s"] for row in rows)
    launches = counted(profiled.launches, "launch", "launches")
    kernels = sum(row["kind"] == "kernel" for row in rows)
    title = f"Kernels on {profiled.timed_on}: {counted(kernels, 'kernel')}, {launches}"
    if operations := sum(row["launches"] for row in rows if row["kind"] != "kernel"):
        title += f", {counted(operations, 'copy or fill', 'copies and fills')} of memory"
    yield paragraph(f"{title}, {seconds(total)}\n" if rows else title)
    if rows and profiled.unseen:
        yield paragraph(f"{profiled.unseen}.\n")
    blocks = _Blocks(profiled, lines)
    for row in rows[:MOST_SHOWN]:
        yield blocks.block(row)
    rest = rows[MOST_SHOWN:]
    if rest:
        took = sum(row["total_s"] for row in rest) / max(total, 1e-12)
        yield paragraph(left_out(len(rest), f"more kernels, {took:.1%} of the time,", _ALL) + "\n")
    if profiled.device is not None and rows:
        yield paragraph(_meaning(profiled, rows))


def _meaning(profiled: ProfileAnalysis, rows: Sequence[Row]) -> str:
    from ttools.profiler.gpu_time.projection import ASSUMPTIONS as PROJECTION
    from ttools.profiler.gpu_time.roofline import assumptions_of

    assert profiled.device is not None
    said = f"At least: {assumptions_of(profiled.device, rows)}."
    return f"{said} Projected: {PROJECTION}." if "projected_s" in rows[0] else said


class _Blocks:
    """What a profile tells of each kernel, asked for once."""

    def __init__(self, profiled: ProfileAnalysis, lines: bool) -> None:
        self._profiled, self._with_lines = profiled, lines
        self._signatures = _grouped(profiled.signatures.to_dict("records"))
        self._hints = _grouped(vars(hint) | {"hint": hint} for hint in profiled.advice)
        self._inspections = profiled.inspections
        self._lines = profiled.lines.to_dict("records") if lines else []
        self._accesses = _grouped(profiled.accesses.to_dict("records")) if lines else {}

    def block(self, row: Row) -> RenderableType:
        """Of one row of the frame."""
        if row["kind"] != "kernel":
            return block(f"{row['kernel']} (no kernel)", [("time", _time(row)), _moved(row)])
        key = row["kernel"], row["config"]
        signatures, own = self._signatures.get(key, []), self._own(row)
        letters = _letters(own)
        place = ""
        if isinstance(row["file"], str):  # kernels of libraries have no source
            place = f"  {shown_path(row['file'])}:{row['line']:.0f}"
        name = readable_name(row["kernel"]) + (f" [{row['config']}]" if row["config"] else "")
        never = self._refused(row) and all(
            isinstance(each["cannot_launch"], str) for each in signatures
        )
        facts = [
            ("speed of light", "" if never else self._speed_of_light(row, signatures)),
            ("at least", "" if never else self._bound(row)),
            ("projected", self._refused(row) or _projected(row)),
            ("time", _time(row)),
            ("a launch does", _work(row)),
            *self._compiled(own, letters),
            ("instructions", _instructions(row)),
            *self._advice(key),
        ]
        return block(name + place, facts, *self._tables(row, signatures, letters))

    # ---- facts
    def _refused(self, row: Row) -> str:
        """Why the device refuses launches; empty if it does not."""
        reason, target = row.get("cannot_launch"), self._profiled.target
        if not isinstance(reason, str) or target is None:
            return ""
        device = self._profiled.device
        return f"cannot launch on {device.name if device else target.name}: {reason}"

    def _speed_of_light(self, row: Row, signatures: Sequence[Row]) -> str:
        device, target = self._profiled.device, self._profiled.target
        if target is None:
            return ""
        parts = []
        if device is not None and is_known(row["compute_share"]):
            unit = f" ({row['compute_unit']})" if row["compute_unit"] else ""
            parts.append(f"compute {rounded_percent(row['compute_share'])}{unit}")
            parts.append(f"memory {rounded_percent(row['memory_share'])} of {device.name}'s peaks")
        elif device is not None and is_known(row["bound_s"]) and row["bound_s"]:
            parts.append(
                f"compute {rounded_percent(row['compute_s'] / row['bound_s'])} and memory "
                f"{rounded_percent(row['memory_s'] / row['bound_s'])} of the bound on {device.name}"
            )
        largest = max(signatures, key=lambda each: each["total_s"], default={})
        if is_known(row["occupancy"]):
            parts.append(
                f"occupancy {rounded_percent(row['occupancy'])} (by {row['occupancy_limited_by']})"
            )
        if is_known(largest.get("waves")):
            of_one = f" (grid {largest['grid']})" if len(signatures) > 1 else ""
            parts.append(_waves(largest) + of_one)
        if device is None and parts:
            parts.append("--device GPU tells compute, memory and waves")
        return "; ".join(parts)

    def _bound(self, row: Row) -> str:
        device = self._profiled.device
        if device is None:
            return ""
        if is_sampled(row):
            return f"unknown on {device.name}: what a launch does is estimated"
        if not (is_known(row["bound_s"]) and row["bound_s"]):
            # Nothing is known of what a library's kernel needs, nor is that news.
            return f"unknown on {device.name}" if isinstance(row["file"], str) else ""
        said = f"{seconds(row['bound_s'])} on {device.name}, by {row['limited_by']}"
        intensity = number(row["intensity"])
        said += f"; {intensity} flop per byte" if intensity else ""
        taken = row["mean_s"] if "efficiency" in row else None
        if taken:
            rates = amount(row["flops"] / taken, "flop"), amount(row["unique_bytes"] / taken, "B")
            said += f"; {percent(row['efficiency'])} of it reached: {rates[0]}/s, {rates[1]}/s"
            if row["efficiency"] > 1:
                said += "; faster than memory allows, as the cache held data of launches before"
        return said

    def _own(self, row: Row) -> dict[str, Inspection]:
        """What was compiled of a kernel, by what tells it from the others."""
        from ttools.profiler.report.signatures import distinguishing_parts, is_of

        own = [
            each
            for each in self._inspections
            if each.source.name == row["kernel"] and is_of(each, row["config"])
        ]
        names = distinguishing_parts([each.source for each in own])
        return {names[each.source]: each for each in own}

    def _compiled(
        self, own: Mapping[str, Inspection], letters: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Each specialisation."""
        for place, (name, each) in enumerate([*own.items()][:MOST_SHOWN]):
            heading = "" if place else f"for {each.target.name}"
            said = _resources(each)
            yield heading, f"{letters[name]}: {said} ({name})" if name in letters else said
        yield "", left_out(len(own) - MOST_SHOWN, "more specialisations", _ALL_SIGNATURES)

    def _advice(self, key: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """Equal advice for several lines is shown once."""
        hints: list[Hint] = [row["hint"] for row in self._hints.get(key, [])]
        together: dict[tuple[str, str], list[Hint]] = {}
        for hint in hints:
            together.setdefault((hint.kind, hint.advice), []).append(hint)
        for (_, advice), own in together.items():
            yield "costs time", "\n".join(self._evidence(own))
            yield "what to try", advice

    def _evidence(self, hints: Sequence[Hint]) -> Iterator[str]:
        """Equal evidence of several lines is shown once."""
        places: dict[tuple[str, str], list[str]] = {}
        for hint in hints:
            where = hint.location
            file = shown_path(where.file) if where else ""
            lines = places.setdefault((hint.evidence, file), [])
            lines += [str(where.line)] if where else []
        for (evidence, file), lines in places.items():
            at = f" in {file}:{', '.join(lines)}" if file else ""
            yield f"{hints[0].kind}{at}: {evidence}"

    # ---- tables
    def _tables(
        self, row: Row, signatures: Sequence[Row], letters: Mapping[str, str]
    ) -> Iterator[RenderableType]:
        if len(signatures) > 1:
            yield _signature_table(signatures, letters)
            rest = left_out(len(signatures) - MOST_SHOWN, "more grids and shapes", _ALL_SIGNATURES)
            if rest:
                yield paragraph(rest)
        if not self._with_lines:
            return
        own = [each for each in self._lines if each["kernel"] == row["kernel"]]
        if own:
            about = ", estimated" if is_sampled(row) else ""
            yield paragraph(f"\nLines, over all launches of the kernel{about}")
            yield _line_table(own, row["file"])
        accesses = self._accesses.get((row["kernel"], row["config"]), [])
        if accesses:
            assert self._profiled.target is not None
            yield paragraph(f"\nAccesses, as warps of {self._profiled.target.name} make them")
            yield _access_table(accesses[: 3 * MOST_SHOWN], row["file"], letters)
            rest = left_out(len(accesses) - 3 * MOST_SHOWN, "more", _ALL_SIGNATURES)
            if rest:
                yield paragraph(rest)


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["kernel"], row["config"]), []).append(row)
    return found


def _letters(names: Iterable[str]) -> dict[str, str]:
    """A short name for each of several specialisations."""
    every = enumerate(filter(None, names))
    return {
        name: ascii_uppercase[n] if n < len(ascii_uppercase) else f"#{n + 1}" for n, name in every
    }


def _waves(signature: Row) -> str:
    from ttools.profiler.gpu_time.roofline import last_wave

    waves = signature["waves"]
    if waves < 1:
        programs = counted(round(signature["programs"]), "program")
        fill = "does" if signature["programs"] == 1 else "do"
        return f"{waves:.2g} waves: {programs} {fill} not fill the device"
    return f"{waves:,.2f} waves, the last one {rounded_percent(last_wave(waves))} full"


def _projected(row: Row) -> str:
    """A time with its interval, and why the model is less sure."""
    if not is_known(row.get("projected_s")):
        return ""
    interval = f"{seconds(row['projected_low_s'])} to {seconds(row['projected_high_s'])}"
    why = f"; less sure: it {row['projected_outside']}" if row["projected_outside"] else ""
    return f"{seconds(row['projected_s'])} ({interval}){why}"


def _moved(row: Row) -> tuple[str, str]:
    """Return heading and text of the bytes that copies or fills of one name move."""
    each = " on average" if row["launches"] > 1 else ""
    return "moves", f"{amount(row['bytes'], 'B')}{each}, {amount(row['gbytes'] * 1e9, 'B')}/s"


#: The word for several operations of each kind, and for one.
_OPERATIONS = {
    "kernel": ("launches", "launch"),
    "copy": ("copies", "copy"),
    "fill": ("fills", "fill"),
}


def _time(row: Row) -> str:
    launches, total = row["launches"], seconds(row["total_s"])
    many, one = _OPERATIONS[row["kind"]]
    if launches == 1:
        said = f"{total} in 1 {one}"
    elif is_known(row["median_s"]):
        each = f"median {seconds(row['median_s'])}, {seconds(row['min_s'])} to "
        each += f"{seconds(row['max_s'])}, 95% up to {seconds(row['p95_s'])}"
        said = f"{total} in {launches:,} {many}: {each}"
    else:
        said = f"{total} in {launches:,} {many}: {seconds(row['mean_s'])} on average"
    said += f"; {row['share']:.0%} of all" if row["share"] < 0.995 else ""
    overhead = seconds(row["overhead_median_s"])
    return said + (f"; {overhead} of overhead" if overhead else "")


def _work(row: Row) -> str:
    """Return operations and bytes of a launch, with their range and the reason if estimated."""
    if is_sampled(row):
        parts = [
            (amount(row["flops"]), " flop", _range(row, "flops")),
            (amount(row["bytes"], "B"), " requested", _range(row, "bytes", "B")),
        ]
        said = ", ".join(f"{mean}{what}{spread}" for mean, what, spread in parts if mean)
        return f"about {said} on average; estimated: {row['estimated']}"
    said = _counted_work(row)
    why = row["estimated"]
    return f"{said}; estimated: {why}" if said and isinstance(why, str) else said


def _range(row: Row, name: str, unit: str = "") -> str:
    least, most = row[f"{name}_min"], row[f"{name}_max"]
    return f" ({amount(least, unit)} to {amount(most, unit)})" if least < most else ""


def _counted_work(row: Row) -> str:
    parts = [
        (amount(row["flops"]), " flop"),
        (amount(row["bytes"], "B"), " requested"),
        (amount(row["unique_bytes"], "B"), " touched"),
        (masked(row), " of lanes masked off"),
    ]
    return ", ".join(f"{value}{what}" for value, what in parts if value)


def masked(row: Row) -> str:
    """Return the share of lanes that are masked off; nothing where it rounds to nothing."""
    value = row["masked_share"]
    return percent(value) if is_known(value) and value >= 0.0005 else ""


def _instructions(row: Row) -> str:
    """What warps execute, and what shared memory waits for."""
    mix = row.get("instruction_mix")
    if not isinstance(mix, dict):
        return ""
    parts = [
        f"{rounded_percent(part)} {kind}" for kind, part in mix.items() if part >= _LEAST_SHOWN
    ]
    conflicts = row["bank_conflicts"]
    if is_known(conflicts) and conflicts >= _LEAST_SHOWN:
        lines = row["bank_conflict_lines"]
        most = [
            f"{at} {rounded_percent(part)}" for at, part in lines.items() if part >= _LEAST_SHOWN
        ]
        where = f" ({', '.join(most[:3])})" if most else ""
        parts.append(
            f"bank conflicts take {rounded_percent(conflicts)} of shared memory's turns{where}"
        )
    return ", ".join(parts)


def _resources(inspection: Inspection) -> str:
    own = inspection.resources
    arrays = own.local - own.spilled
    parts = [
        f"{own.registers} registers",
        f"{amount(own.spilled, 'B')} spilled" if own.spilled else "",
        f"{amount(arrays, 'B')} of arrays in local memory" if arrays else "",
        f"{amount(own.shared, 'B')} of shared memory" if own.shared else "",
        ", ".join(sorted({each.name.split(".")[0] for each in inspection.matrix})),
        narrow_accesses(inspection),
    ]
    return ", ".join(filter(None, parts))


def narrow_accesses(inspection: Inspection) -> str:
    """Which lines access less than threads could at once."""
    from ttools.core.compilation.instructions import WIDEST

    lines: dict[int, list[int]] = {}
    for access in inspection.accesses:
        if access.location and 0 < access.bits < WIDEST:
            own = lines.setdefault(access.bits, [])
            own += [access.location.line] if access.location.line not in own else []
    return ", ".join(
        f"accesses of {bits} bits in {'line' if len(own) == 1 else 'lines'} "
        + ", ".join(map(str, sorted(own)))
        for bits, own in sorted(lines.items())
    )


def metric_cells(
    metrics: Iterable[Metric], row: Row, special: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the texts of some columns of a row.

    Args:
        metrics: The columns.
        row: Of a frame.
        special: Texts of columns that are not written as usual.
    """
    return tuple(
        special[each.name] if each.name in special else each.text(row.get(each.name))
        for each in metrics
    )


def _metric_table(
    metrics: Sequence[Metric], rows: Iterable[Sequence[str]], first: Sequence[str] = ()
) -> RenderableType:
    """Return a table of metrics under their short headings.

    Args:
        metrics: The columns.
        rows: A cell for each of `first`, then for each metric.
        first: Headings of columns of text before the metrics.
    """
    left = [*first, *(each.short or each.heading for each in metrics if each.kind == "text")]
    return table([*first, *(each.short or each.heading for each in metrics)], list(rows), left)


def _signature_table(signatures: Sequence[Row], letters: Mapping[str, str]) -> RenderableType:
    metrics = chosen(
        SIGNATURES,
        *("grid", "launches", "total_s", "flops", "bytes", "bound_s", "limited_by"),
        *("projected_s", "waves", "specialisation"),
    )
    cells = []
    for row in signatures[:MOST_SHOWN]:
        limit = row["limited_by"] if is_known(row["bound_s"]) else ""
        letter = letters.get(row["specialisation"], row["specialisation"])
        cells.append(metric_cells(metrics, row, {"limited_by": limit, "specialisation": letter}))
    return _metric_table(metrics, cells)


def _place(row: Row, own: str) -> str:
    """A line's number, with its file where that is not the kernel's own."""
    return f"{row['line']}" if row["file"] == own else f"{shown_path(row['file'])}:{row['line']}"


def _line_table(rows: Sequence[Row], own: str) -> RenderableType:
    metrics = chosen(
        LINES,
        *("time_s", "time_share", "executions", "loaded", "stored", "atomic", "masked_share"),
        *("flops", "operations"),
    )
    cells = []
    for row in rows:
        special = {name: "" for name in ("loaded", "stored", "atomic", "flops") if not row[name]}
        special |= {"executions": amount(row["executions"]), "masked_share": masked(row)}
        special["operations"] = _operations(row["operations"])
        cells.append((_place(row, own), *metric_cells(metrics, row, special)))
    return _metric_table(metrics, cells, ("line",))


def _operations(text: str) -> str:
    """`4.1k fp32` of `4,096 fp32`."""
    found = []
    for part in filter(None, text.split(", ")):
        count, _, unit = part.partition(" ")
        found.append(f"{amount(int(count.replace(',', '')))} {unit}")
    return ", ".join(found)


def _access_table(rows: Sequence[Row], own: str, letters: Mapping[str, str]) -> RenderableType:
    metrics = chosen(
        ACCESSES,
        *("kind", "bits", "sectors_per_request", "ideal_per_request", "efficiency", "shared_by"),
        *("again", "grid", "specialisation"),
    )
    cells = []
    for row in rows:
        letter = letters.get(row["specialisation"], row["specialisation"])
        cells.append((_place(row, own), *metric_cells(metrics, row, {"specialisation": letter})))
    return _metric_table(metrics, cells, ("line",))
