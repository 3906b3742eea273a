"""A profile as text: a block per kernel, which begins with its share of the GPU's peaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from ttools.cli.blocks import MOST_SHOWN, block, left_out, paragraph, table
from ttools.cli.console import verbosity
from ttools.cli.profile.kernel_names import readable_name, shortened
from ttools.core.location import shown_path, source_line
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
    line_instructions,
    phrases,
)

if TYPE_CHECKING:
    from ttools.core.compilation.inspection import Inspection
    from ttools.profiler import ProfileAnalysis

_ALL = "--format csv"
_ALL_SIGNATURES = "--format json"
#: Maximum number of rows in the table of all kernels, and maximum width of names in it.
_MOST_ROWS, _NAME_WIDTH = 50, 32
#: Maximum number of kernels whose compilations are listed.
_MOST_COMPILED = 3
#: Maximum number of pieces of advice on a kernel in a report that is not verbose.
_MOST_ADVICE = 2
_ATOMICS = " (without those of atomics)"
#: Maximum length of a source line in the table of lines.
_SOURCE_WIDTH = 44
#: Smaller shares of instructions are left out.
_LEAST_SHOWN = 0.02


def blocks(profiled: ProfileAnalysis, *, lines: bool) -> Iterator[RenderableType]:
    """Yield a table of all kernels, advice, and a block for each of the slowest Triton kernels.

    Args:
        profiled: Analysis of a run.
        lines: If True, source lines are included.
    """
    rows = profiled.frame.to_dict("records")
    total = sum(row["total_s"] for row in rows)
    launches = counted(profiled.launches, "launch", "launches")
    kernels = sum(row["kind"] == "kernel" for row in rows)
    title = f"Kernels on {profiled.timed_on}: {counted(kernels, 'kernel')}, {launches}"
    if operations := sum(row["launches"] for row in rows if row["kind"] != "kernel"):
        title += f", {counted(operations, 'copy or fill', 'copies and fills')} of memory"
    of_cpu = " of CPU time" if _on_cpu(profiled) else ""
    yield paragraph(f"{title}, {seconds(total)}{of_cpu}\n" if rows else title)
    if rows and profiled.unseen:
        yield paragraph(f"{profiled.unseen}.\n")
    if not rows:
        return
    rows = sorted(rows, key=_place_in_report)
    yield _overview(profiled, rows)
    blocks = _Blocks(profiled, lines)
    yield from blocks.advice(rows)
    detailed = [row for row in rows if blocks.has_details(row)]
    for row in detailed[:MOST_SHOWN]:
        yield blocks.block(row)
    if rest := left_out(len(detailed) - MOST_SHOWN, "more kernels in detail", _ALL):
        yield paragraph(f"{rest}\n")
    yield from _compilations(profiled)
    if profiled.device is not None:
        yield paragraph(_meaning(profiled, rows))
    elif _on_cpu(profiled):
        further = ", registers and advice" if profiled.target is None else ""
        yield paragraph(
            f"--gpu h100, or another GPU, adds bounds, projected times, waves{further}; the GPU "
            "need not be present."
        )


def _compilations(profiled: ProfileAnalysis) -> Iterator[RenderableType]:
    """Yield a paragraph on the kernels that were compiled more than once, if there are any."""
    from ttools.core.compilation.specialisation_report import recompiled_kernels

    if profiled.compilations is None:
        return
    sentences = list(recompiled_kernels(profiled.compilations))
    if sentences:
        shown = sentences[:_MOST_COMPILED]
        if rest := left_out(len(sentences) - len(shown), "more kernels", _ALL_SIGNATURES):
            shown.append(rest)
        advice = "`ttools inspect --specialisations` explains each compilation."
        yield paragraph("\n".join([*shown, advice, ""]))


def _on_cpu(profiled: ProfileAnalysis) -> bool:
    return profiled.timed_on == "the CPU"


def _place_in_report(row: Row) -> tuple[int, float]:
    """Return a sort key: Triton kernels, other kernels, copies and fills, each by time."""
    is_kernel = row["kind"] == "kernel"
    is_triton = isinstance(row["file"], str) or row["told_by"] in ("counts", "estimate")
    group = 0 if is_triton else 1 if is_kernel else 2
    return group, -row["total_s"]


def _overview(profiled: ProfileAnalysis, rows: Sequence[Row]) -> RenderableType:
    """Return the table of all kernels: share, launches, total and mean time."""
    time = "CPU time" if _on_cpu(profiled) else "time"
    names = [_title(row) for row in rows]
    projected = any(is_known(row.get("projected_s")) for row in rows)
    cells = [
        (
            shortened(name, _NAME_WIDTH),
            percent(row["share"]),
            f"{row['launches']:,}",
            seconds(row["total_s"]),
            seconds(row["mean_s"]),
            *([_projected_mean(row)] if projected else []),
        )
        for name, row in zip(names[:_MOST_ROWS], rows, strict=False)
    ]
    headings = ["kernel", "share", "launches", time, "mean", *(["projected"] if projected else [])]
    parts = [table(headings, cells, ["kernel"], always=headings)]
    if len(rows) > _MOST_ROWS:
        took = sum(row["share"] for row in rows[_MOST_ROWS:])
        what = f"more, {took:.1%} of the time,"
        parts.append(Text(left_out(len(rows) - _MOST_ROWS, what, _ALL)))
    return Group(*parts, Text(""))


def _projected_mean(row: Row) -> str:
    star = "*" if row["projected_outside"] else ""
    return f"{seconds(row['projected_s'])}{star}" if is_known(row["projected_s"]) else ""


def _title(row: Row) -> str:
    """Return a kernel's name with its configuration."""
    if row["kind"] != "kernel":
        return f"{row['kernel']} (not a kernel)"
    return readable_name(row["kernel"]) + (f" [{row['config']}]" if row["config"] else "")


def _meaning(profiled: ProfileAnalysis, rows: Sequence[Row]) -> str:
    """Explain the bound and the projection: briefly, or with all assumptions if the user asks."""
    from ttools.profiler.gpu_time.projection import ASSUMPTIONS as PROJECTION
    from ttools.profiler.gpu_time.roofline import condition_of, doubts_of

    assert profiled.device is not None
    is_projected = any(is_known(row.get("projected_s")) for row in rows)
    doubts = "; ".join(doubts_of(profiled.device, rows))
    if verbosity() == "verbose":
        condition = condition_of(profiled.device)
        bound_text = f"At least: {'; '.join(filter(None, (condition, doubts)))}."
        return f"{bound_text} Projected: {PROJECTION}." if is_projected else bound_text
    parts = ["At least: a lower bound, not a prediction"]
    if is_projected:
        parts.append("Projected: a model's estimate with its interval (* less certain)")
    parts += [doubts] if doubts else []
    return f"{'. '.join(parts)}. `ttools -v profile` gives the assumptions."


class _Blocks:
    """The parts of a profile by kernel."""

    def __init__(self, profiled: ProfileAnalysis, lines: bool) -> None:
        from ttools.profiler.report.advice import grouped_advice

        self._profiled, self._with_lines = profiled, lines
        self._signatures = _grouped(profiled.signatures.to_dict("records"))
        self._advices = grouped_advice(profiled.advice)
        self._inspections = profiled.inspections
        self._lines = profiled.lines.to_dict("records") if lines else []
        self._accesses = _grouped(profiled.accesses.to_dict("records")) if lines else {}

    def block(self, row: Row) -> RenderableType:
        """Return the block for one row of the frame."""
        if row["kind"] != "kernel":
            return block(_title(row), [self._times(row), _moved(row)])
        key = row["kernel"], row["config"]
        signatures, compiled = self._signatures.get(key, []), self._own(row)
        letters = _letters(compiled)
        place = ""
        if isinstance(row["file"], str):  # kernels of libraries have no source
            place = f"{shown_path(row['file'])}:{row['line']:.0f}"
        never = self._refused(row) and all(
            isinstance(signature["cannot_launch"], str) for signature in signatures
        )
        facts = [
            ("speed of light", "" if never else self._speed_of_light(row)),
            ("occupancy", "" if never else self._occupancy(row, signatures)),
            ("at least", "" if never else self._bound(row)),
            ("projected", self._refused(row) or _projected(row)),
            self._times(row),
            ("a launch does", _work(row)),
            *self._compiled(compiled, letters),
            ("instructions", _instructions(row)),
        ]
        return block(_title(row), facts, *self._tables(row, signatures, letters), place=place)

    def has_details(self, row: Row) -> bool:
        """Return whether a block has facts that the table of all kernels does not have."""
        return row["kind"] != "kernel" or isinstance(row["file"], str) or bool(_work(row))

    def advice(self, rows: Iterable[Row]) -> Iterator[RenderableType]:
        """Yield the advice on each kernel."""
        for row in rows:
            if facts := [*self._advice((row["kernel"], row["config"]))]:
                yield block(f"Advice for {_title(row)}", facts)

    def _times(self, row: Row) -> tuple[str, str]:
        """Return the label and the distribution of times, which is empty for a single launch."""
        name = "CPU time" if _on_cpu(self._profiled) else "time"
        return name, "" if row["launches"] == 1 and row["kind"] == "kernel" else _time(row)

    # ---- facts
    def _refused(self, row: Row) -> str:
        """Return the reason why the device rejects launches; empty if it accepts them."""
        reason, target = row.get("cannot_launch"), self._profiled.target
        if not isinstance(reason, str) or target is None:
            return ""
        device = self._profiled.device
        return f"cannot launch on {device.name if device else target.name}: {reason}"

    def _speed_of_light(self, row: Row) -> str:
        device = self._profiled.device
        if device is None or not is_known(row.get("compute_share")):
            return ""
        unit = f" ({row['compute_unit']})" if row["compute_unit"] else ""
        return (
            f"compute {rounded_percent(row['compute_share'])}{unit}; memory "
            f"{rounded_percent(row['memory_share'])} of {device.name}'s peaks"
        )

    def _occupancy(self, row: Row, signatures: Sequence[Row]) -> str:
        """Return the occupancy, its limit and the number of waves."""
        if self._profiled.target is None:
            return ""
        parts = []
        largest = max(signatures, key=lambda signature: signature["total_s"], default={})
        if is_known(row["occupancy"]):
            share, limit = rounded_percent(row["occupancy"]), row["occupancy_limited_by"]
            parts.append(f"{share}, limited by {limit}")
        if is_known(largest.get("waves")):
            of_one = f" (grid {largest['grid']})" if len(signatures) > 1 else ""
            parts.append(_waves(largest) + of_one)
        return "; ".join(parts)

    def _bound(self, row: Row) -> str:
        device = self._profiled.device
        if device is None:
            return ""
        if is_sampled(row):
            return f"unknown on {device.name}, because the work of a launch is only estimated"
        if not (is_known(row["bound_s"]) and row["bound_s"]):
            # This is not mentioned for library kernels, because their work is always unknown.
            return f"unknown on {device.name}" if isinstance(row["file"], str) else ""
        text = f"{seconds(row['bound_s'])} on {device.name}, limited by {row['limited_by']}"
        intensity = number(row["intensity"])
        text += f"; {intensity} flop per byte" if intensity else ""
        taken = row["mean_s"] if "efficiency" in row else None
        if taken:
            rates = amount(row["flops"] / taken, "flop"), amount(row["unique_bytes"] / taken, "B")
            text += f"; {percent(row['efficiency'])} of it reached: {rates[0]}/s, {rates[1]}/s"
            if row["efficiency"] > 1:
                text += (
                    "; faster than memory allows, because data of earlier launches was in the cache"
                )
        return text

    def _own(self, row: Row) -> dict[str, Inspection]:
        """Return a kernel's inspections by names that show how their specialisations differ."""
        from ttools.profiler.report.signatures import distinguishing_parts, is_of

        inspections = [
            inspection
            for inspection in self._inspections
            if inspection.source.name == row["kernel"] and is_of(inspection, row["config"])
        ]
        names = distinguishing_parts([inspection.source for inspection in inspections])
        return {names[inspection.source]: inspection for inspection in inspections}

    def _compiled(
        self, own: Mapping[str, Inspection], letters: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the resources of each specialisation."""
        for place, (name, inspection) in enumerate([*own.items()][:MOST_SHOWN]):
            heading = "" if place else f"for {inspection.target.name}"
            resources = _resources(inspection)
            yield (
                heading,
                f"{letters[name]}: {resources} ({name})" if name in letters else resources,
            )
        yield "", left_out(len(own) - MOST_SHOWN, "more specialisations", _ALL_SIGNATURES)

    def _advice(self, key: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """Yield advice; equal advice for several lines is shown once.

        If there is much advice on a kernel, the last pieces and further evidence are only named.
        """
        from ttools.profiler.report.advice import lines_text

        own = [advice for advice in self._advices if (advice.kernel, advice.config) == key]
        is_short = verbosity() != "verbose" and len(own) > _MOST_ADVICE
        for advice in own[: _MOST_ADVICE if is_short else None]:
            costs = [
                f"{advice.kind}{f' in {lines_text(lines)}' if lines else ''}: {sentence}"
                for sentence, lines in advice.evidence.items()
            ]
            yield "costs time", "\n".join(costs[: 1 if is_short else None])
            yield "what to try", advice.text
        if is_short:
            kinds = ", ".join(advice.kind for advice in own[_MOST_ADVICE:])
            yield "also", f"{kinds} (`ttools -v profile` shows all advice)"

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
        line_rows = [line_row for line_row in self._lines if line_row["kernel"] == row["kernel"]]
        if line_rows:
            about = ", estimated" if is_sampled(row) else ""
            yield paragraph(f"\nLines, over all launches of the kernel{about}")
            yield _line_table(line_rows, row["file"])
        accesses = self._accesses.get((row["kernel"], row["config"]), [])
        if accesses:
            assert self._profiled.target is not None
            yield paragraph(f"\nAccesses by warps of {self._profiled.target.name}")
            yield _access_table(accesses[: 3 * MOST_SHOWN], row["file"], letters)
            rest = left_out(len(accesses) - 3 * MOST_SHOWN, "more", _ALL_SIGNATURES)
            if rest:
                yield paragraph(rest)


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["kernel"], row["config"]), []).append(row)
    return groups


def _letters(names: Iterable[str]) -> dict[str, str]:
    """Return a letter for each named specialisation; they have names only if there are several."""
    numbered = enumerate(filter(None, names))
    return {
        name: ascii_uppercase[n] if n < len(ascii_uppercase) else f"#{n + 1}"
        for n, name in numbered
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
    """Return a time with its interval, and why the projection is less reliable."""
    from ttools.profiler.gpu_time.projection import projection_text

    names = "projected_s", "projected_low_s", "projected_high_s", "projected_outside"
    own: list[Any] = [row.get(name) for name in names]
    return projection_text(*own)


def _moved(row: Row) -> tuple[str, str]:
    """Return the label and the text for the bytes that copies or fills of the same name move."""
    average = " on average" if row["launches"] > 1 else ""
    return "moves", f"{amount(row['bytes'], 'B')}{average}, {amount(row['gbytes'] * 1e9, 'B')}/s"


#: Plural and singular noun for each kind of operation.
_OPERATIONS = {
    "kernel": ("launches", "launch"),
    "copy": ("copies", "copy"),
    "fill": ("fills", "fill"),
}


def _time(row: Row) -> str:
    launches, total = row["launches"], seconds(row["total_s"])
    many, one = _OPERATIONS[row["kind"]]
    if launches == 1:
        text = f"{total} in 1 {one}"
    elif is_known(row["median_s"]):
        spread = f"median {seconds(row['median_s'])}, {seconds(row['min_s'])} to "
        spread += f"{seconds(row['max_s'])}, 95% up to {seconds(row['p95_s'])}"
        text = f"{total} in {launches:,} {many}: {spread}"
    else:
        text = f"{total} in {launches:,} {many}: {seconds(row['mean_s'])} on average"
    text += f"; {row['share']:.0%} of all" if row["share"] < 0.995 else ""
    overhead = seconds(row["overhead_median_s"])
    return text + (f"; {overhead} of overhead" if overhead else "")


def _work(row: Row) -> str:
    """Return operations and bytes per launch; if estimated, also the range and the reason."""
    if is_sampled(row):
        parts = [
            (amount(row["flops"]), " flop", _range(row, "flops")),
            (amount(row["bytes"], "B"), " requested", _range(row, "bytes", "B")),
        ]
        text = ", ".join(f"{mean}{what}{spread}" for mean, what, spread in parts if mean)
        return f"about {text} on average; estimated: {row['estimated']}"
    text = _counted_work(row)
    why = row["estimated"]
    return f"{text}; estimated: {why}" if text and isinstance(why, str) else text


def _range(row: Row, name: str, unit: str = "") -> str:
    least, most = row[f"{name}_min"], row[f"{name}_max"]
    return f" ({amount(least, unit)} to {amount(most, unit)})" if least < most else ""


def _counted_work(row: Row) -> str:
    others = row["other_operations"]
    parts = [
        (amount(row["flops"]), f" flop{_ATOMICS if row['updates'] else ''}"),
        # Without them, the kernel would seem to compute nothing.
        (others if row["flops"] == 0 and isinstance(others, str) else "", ""),
        (amount(row["bytes"], "B"), " requested"),
        (amount(row["unique_bytes"], "B"), " touched"),
        (masked(row), " of lanes masked off"),
    ]
    return ", ".join(f"{value}{what}" for value, what in parts if value)


def masked(row: Row) -> str:
    """Return the share of masked-off lanes; empty if it rounds to zero."""
    value = row["masked_share"]
    return percent(value) if is_known(value) and value >= 0.0005 else ""


def _instructions(row: Row) -> str:
    """Return the mix of executed instructions, and the share of bank conflicts."""
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
            f"bank conflicts are {rounded_percent(conflicts)} of shared memory wavefronts{where}"
        )
    return ", ".join(parts)


def _resources(inspection: Inspection) -> str:
    resources = inspection.resources
    arrays = resources.local - resources.spilled
    parts = [
        f"{resources.registers} registers",
        f"{amount(resources.spilled, 'B')} spilled" if resources.spilled else "",
        f"{amount(arrays, 'B')} of arrays in local memory" if arrays else "",
        f"{amount(resources.shared, 'B')} of shared memory" if resources.shared else "",
        ", ".join(sorted({instructions.name.split(".")[0] for instructions in inspection.matrix})),
        narrow_accesses(inspection),
    ]
    return ", ".join(filter(None, parts))


def narrow_accesses(inspection: Inspection) -> str:
    """Return which lines access less than the maximum width per thread."""
    from ttools.core.compilation.instructions import WIDEST

    lines: dict[int, list[int]] = {}
    for access in inspection.accesses:
        if access.location and 0 < access.bits < WIDEST:
            numbers = lines.setdefault(access.bits, [])
            numbers += [access.location.line] if access.location.line not in numbers else []
    return ", ".join(
        f"accesses of {bits} bits in {'line' if len(numbers) == 1 else 'lines'} "
        + ", ".join(map(str, sorted(numbers)))
        for bits, numbers in sorted(lines.items())
    )


def metric_cells(
    metrics: Iterable[Metric], row: Row, special: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the texts of the given metrics for one row.

    Args:
        metrics: Metrics to show, one per column.
        row: A row of a frame.
        special: Texts that replace the usual form of some columns.
    """
    return tuple(
        special[metric.name] if metric.name in special else metric.text(row.get(metric.name))
        for metric in metrics
    )


def _metric_table(
    metrics: Sequence[Metric], rows: Iterable[Sequence[str]], first: Sequence[str] = ()
) -> RenderableType:
    """Return a table of metrics under their short headings."""
    left = [
        *first,
        *(metric.short or metric.heading for metric in metrics if metric.kind == "text"),
    ]
    return table(
        [*first, *(metric.short or metric.heading for metric in metrics)], list(rows), left
    )


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
    """Return a line's number, with its file if that is not the kernel's own."""
    return f"{row['line']}" if row["file"] == own else f"{shown_path(row['file'])}:{row['line']}"


def _line_table(rows: Sequence[Row], own: str) -> RenderableType:
    """Return a table of lines: their times, their source, and below it the work of each line."""
    metrics = chosen(LINES, "time_s", "time_share", "executions")
    cells = []
    for row in rows:
        source = source_line(row["file"], int(row["line"])).strip()
        source = source if len(source) <= _SOURCE_WIDTH else f"{source[: _SOURCE_WIDTH - 1]}…"
        text = f"{source}\n    {work}" if (work := _line_work(row)) else source
        special = {"executions": amount(row["executions"])}
        special |= {} if row["time_s"] else {"time_s": "", "time_share": ""}
        cells.append((_place(row, own), *metric_cells(metrics, row, special), text))
    headings = ["line", *(metric.short or metric.heading for metric in metrics), "source"]
    return table(headings, cells, ["line", "source"], always=["source"])


def _line_work(row: Row) -> str:
    """Return what a line does: bytes, masked lanes, operations, its share of the instructions."""
    done = phrases(row, "loaded", "stored", "atomic")
    done += [f"{masked(row)} masked"] if masked(row) else []
    done += [_operations(row["operations"])] if row["operations"] else []
    done += [line_instructions(row)] if line_instructions(row) else []
    return ", ".join(done)


def _operations(text: str) -> str:
    """Shorten `4,096 fp32` to `4.1k fp32`."""
    parts = []
    for part in filter(None, text.split(", ")):
        count, _, unit = part.partition(" ")
        parts.append(f"{amount(int(count.replace(',', '')))} {unit}")
    return ", ".join(parts)


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
