"""The analysis of a profiled run for a device and a target, and its result.

`analyse` groups samples by launch signature, compiles the kernels for the target, and adds
projections, accesses and advice. The result is complete: reading its attributes causes no further
computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.specialisation_report import SpecialisationReport
from ttools.core.compilation.stages import Compilation, compile_for
from ttools.core.environment import processors
from ttools.core.errors import TtoolsError
from ttools.core.gpus.devices import Device
from ttools.core.gpus.targets import Target
from ttools.core.reports.notebook import Part, Table, Text, place_cells
from ttools.core.reports.report import config_text
from ttools.core.reports.result import Result
from ttools.profiler.gpu_time.instruction_mix import Executed, executed_by
from ttools.profiler.gpu_time.projection import is_projected, project, refusal
from ttools.profiler.metrics import (
    ACCESSES,
    KERNELS,
    LINES,
    Metric,
    by_name,
    chosen,
    finite,
    line_facts,
    shown_columns,
)
from ttools.profiler.report.advice import MATTERS, Hint, advise
from ttools.profiler.report.call_tree import Node, call_tree, graph_frame
from ttools.profiler.report.frames import (
    access_frame,
    kernel_frame,
    line_frame,
    signature_frame,
    signature_row,
)
from ttools.profiler.report.signatures import (
    MOST,
    Evidence,
    SignatureKey,
    SignatureStats,
    distinguishing_parts,
    evidence_of,
    most_requesting,
    requested,
    signatures_of,
)
from ttools.profiler.run.session import Sample, Session
from ttools.profiler.run.trials import Trials

if TYPE_CHECKING:
    import pandas as pd

#: Columns that have no values for launches that the device rejects.
_OF_LAUNCHES = ("bound_s", "waves")
_BOUNDS = ("bound_s", "limited_by", "compute_s", "memory_s")
_PROJECTED = ("projected_s", "projected_low_s", "projected_high_s")
#: A kernel's name and its configuration as text.
_Kernel = tuple[str, str]
_K = TypeVar("_K")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of an analysis.

    Attributes:
        stage: `counting` after a run on a GPU, then `analysing` kernels and their launch
            signatures.
        done: Number of kinds of launches that are counted, or of specialisations and signatures
            that are analysed.
        total: Total number of kinds, or of specialisations and signatures, as far as it is known.
    """

    stage: Literal["counting", "analysing"]
    done: int
    total: int


#: A function that is called whenever an analysis has advanced.
OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class ProfileAnalysis(Result):
    """Figures of a profiled run, made by `Profile.analyse`.

    A profile always passes, because it contains measurements only. The formats of `to` are `text`,
    `markdown`, `json`, `csv`, `html` and `chrome`.

    The columns of the frames are described in `ttools.profiler.metrics`.

    Attributes:
        timed_on: Processor on which kernels were timed: `the CPU` or `the GPU`.
        device: The device whose roofline bounds launches; None for no device.
        target: The target for which kernels were compiled; None for no target.
        samples: Every launch in order, and every copy and fill of memory on a GPU.
        frame: One row per kernel and configuration.
        signatures: One row per launch signature: launches of one specialisation and grid with equal
            work. Figures from the target's compiler and projections are given only for the 256
            signatures of each kernel and configuration that request the most bytes.
        lines: One row per source line.
        accesses: One row per access to tiles in memory, by the warps of the target; empty without a
            target or counts.
        evidence: Facts about each signature on the target.
        advice: Advice on costs on the target. A signature is considered if it has at least a
            twentieth of its kernel's bytes or time; of equal hints, the one for the larger launch
            is given.
        inspections: The compiled specialisations. Kernels that do not compile, or whose machine
            code cannot be read, are left out and named in `notes`.
        tree: Scopes, or Python functions, with the kernels launched in them.
        trials: Trials of autotuners on a GPU, which are left out of the figures.
        notes: Reasons why kernels were not counted, compiled or matched with times, by kernel.
        unseen: A sentence on GPU time that no figure includes; empty on the CPU.
        compilations: The compilations of the run with their causes; None if they were not observed.
    """

    timed_on: str
    device: Device | None
    target: Target | None
    samples: tuple[Sample, ...]
    frame: pd.DataFrame
    signatures: pd.DataFrame
    lines: pd.DataFrame
    accesses: pd.DataFrame
    evidence: tuple[Evidence, ...]
    advice: tuple[Hint, ...]
    inspections: tuple[Inspection, ...]
    tree: Node
    trials: Trials
    notes: dict[str, str] = field(default_factory=dict)
    unseen: str = ""
    compilations: SpecialisationReport | None = None

    @property
    def failures(self) -> tuple[()]:
        """Return an empty list, because a profile contains measurements and cannot fail."""
        return ()

    @property
    def launches(self) -> int:
        """Return the number of kernel launches."""
        return sum(sample.launches for sample in self.samples if sample.kind == "kernel")

    @property
    def seconds(self) -> dict[tuple[str, str], list[float]]:
        """Return the time of each launch, by kernel and configuration."""
        times: dict[tuple[str, str], list[float]] = {}
        for (_, kernel, config), seconds in self.seconds_by_scope.items():
            times.setdefault((kernel, config), []).extend(seconds)
        return times

    @property
    def seconds_by_scope(self) -> dict[tuple[tuple[str, ...], str, str], list[float]]:
        """Return the time of each launch, by scopes, kernel and configuration."""
        times: dict[tuple[tuple[str, ...], str, str], list[float]] = {}
        for sample in self.samples:
            if sample.launches != 1:
                continue  # they were timed together
            key = sample.stack, sample.kernel, config_text(sample.config)
            times.setdefault(key, []).append(sample.seconds)
        return times

    @property
    def graphframe(self) -> Any:
        """Return the tree as a `hatchet.GraphFrame` (llnl-hatchet), times in seconds."""
        return graph_frame(self.tree)

    def _shown(self) -> Iterator[Part]:
        return _parts(self)


class Compiler:
    """Compiles kernels, and keeps the result for each kernel and target."""

    def __init__(self) -> None:
        self._known: dict[tuple[KernelSource, Target], Inspection | str] = {}

    @contextmanager
    def inspecting(
        self,
        sources: Sequence[KernelSource],
        target: Target,
        session: Session,
        compiling: Callable[[int], object] = lambda _: None,
    ) -> Iterator[None]:
        """Compile kernels, and read the results in other threads during the `with` block.

        NVIDIA's disassembler takes a quarter of a second to start. If the kernels were disassembled
        one after the other, this would take longer than all other steps.

        Args:
            sources: The kernels to compile.
            target: The target to compile for.
            session: Provides facts that other processes have derived from the kernels.
            compiling: Called with the index of each kernel before it is compiled.
        """
        reading: dict[KernelSource, Future[Inspection]] = {}
        with ThreadPoolExecutor(max_workers=processors()) as pool:
            for number, source in enumerate(sources):
                compiling(number)
                if (source, target) in self._known:
                    continue
                try:
                    compilation = compile_for(source, target)
                except TtoolsError as error:
                    self._known[source, target] = str(error)
                else:
                    reading[source] = pool.submit(_read, compilation, session)
            yield
            for source, future in reading.items():
                try:
                    self._known[source, target] = future.result()
                except TtoolsError as error:
                    self._known[source, target] = str(error)

    def inspected(self, source: KernelSource, target: Target) -> Inspection | str:
        """Return a compiled kernel, or the reason why it cannot be compiled or read."""
        return self._known[source, target]


def _read(compilation: Compilation, session: Session) -> Inspection:
    readings = session.readings_of(compilation.source, compilation.target)
    if readings is not None:
        return Inspection.of_readings(compilation, readings)
    inspection = Inspection(compilation)
    _ = inspection.resources
    if compilation.target.backend == "cuda":
        with suppress(TtoolsError):  # raised again where the machine code is first used
            _ = compilation.sass
    return inspection


def analyse(
    session: Session,
    device: Device | None,
    target: Target | None,
    *,
    compiler: Compiler,
    complete: bool,
    line_costs: bool = False,
    progress: OnProgress,
) -> ProfileAnalysis:
    """Analyse the samples of a session.

    Args:
        session: One or more runs that have ended.
        device: The device whose roofline bounds launches.
        target: The target for which kernels are compiled.
        compiler: Holds the kernels that earlier analyses have compiled.
        complete: If False, skip everything slow: counts that are still missing, and all
            compilation.
        line_costs: If True, kernels are compiled again to determine the cost of masks and of
            divisions of indices.
        progress: Called whenever the analysis has advanced.
    """
    inspections: list[Inspection] = []
    notes: dict[str, str] = {}
    variants = session.variants if target is not None else {}
    sources = list(dict.fromkeys(variants.values())) if complete else []
    with ExitStack() as stack:
        if target is not None:
            stack.enter_context(
                compiler.inspecting(
                    sources,
                    target,
                    session,
                    lambda n: progress(Progress(stage="analysing", done=n, total=len(sources))),
                )
            )
        session.finish(
            lambda done, total: progress(Progress(stage="counting", done=done, total=total)),
            count=complete,
        )
    if target is not None:
        for source in sources:
            inspection = compiler.inspected(source, target)
            if isinstance(inspection, str):
                notes.setdefault(source.name, inspection)
            else:
                inspections.append(inspection)
    analysis = _Analysis(session, device, target, variants, inspections, notes, progress)
    return analysis.result(line_costs=line_costs)


class _Analysis:
    """Combines the samples of a run with its compiled kernels.

    Args:
        session: A run whose launches are counted.
        device: The device whose roofline bounds launches.
        target: The target for which kernels were compiled.
        variants: The source of each sample's kernel, see `Sample.variant`.
        inspections: The specialisations compiled for the target.
        notes: Receives why kernels could not be analysed, by kernel.
        progress: Called whenever the analysis has advanced.
    """

    def __init__(
        self,
        session: Session,
        device: Device | None,
        target: Target | None,
        variants: Mapping[Any, KernelSource],
        inspections: Sequence[Inspection],
        notes: dict[str, str],
        progress: OnProgress,
    ) -> None:
        self._session, self._device, self._target = session, device, target
        self._samples = tuple(session.samples)
        self._on_device = session.timed_on == "the GPU"
        self._inspections, self._notes, self._progress = inspections, notes, progress
        kernels = (sample for sample in self._samples if sample.kind == "kernel")
        self._signatures = signatures_of(kernels, variants)
        self._evidence = self._all_evidence()
        self._mixes: dict[SignatureKey, Executed] = {}
        self._by_signature = {evidence.signature.key: evidence for evidence in self._evidence}
        self._rows = {
            signature.key: row for signature, row in self._signature_rows(self._signatures)
        }

    def result(self, *, line_costs: bool) -> ProfileAnalysis:
        """Return all figures of the run.

        Args:
            line_costs: If True, kernels are compiled again to determine the cost of masks and of
                divisions of indices.
        """
        rows = self._rows
        notes = dict(self._session.notes)
        for kernel, note in self._notes.items():
            notes.setdefault(kernel, note)
        return ProfileAnalysis(
            timed_on=self._session.timed_on,
            device=self._device,
            target=self._target,
            samples=self._samples,
            frame=self._kernels(),
            signatures=signature_frame(list(rows.values())),
            lines=line_frame(self._samples, self._executed_by_kernel()),
            accesses=access_frame(
                (rows[evidence.signature.key], evidence.accesses) for evidence in self._evidence
            ),
            evidence=tuple(self._evidence),
            advice=tuple(self._advice(line_costs=line_costs)),
            inspections=tuple(self._inspections),
            tree=call_tree(self._samples, self._session.scopes),
            trials=self._session.trials,
            notes=notes,
            unseen=self._session.unseen,
        )

    # ---- signatures

    def _all_evidence(self) -> list[Evidence]:
        if not self._inspections:
            return []
        counted = {
            key: [signature for signature in signatures if signature.sample.counts is not None]
            for key, signatures in self._signatures.items()
        }
        compiled = len(self._inspections)
        total = compiled + sum(len(most_requesting(own)) for own in counted.values())
        all_evidence: list[Evidence] = []
        for (kernel, _), signatures in counted.items():
            if len(signatures) > MOST:
                self._notes.setdefault(
                    kernel,
                    f"of its {len(signatures)} grids and shapes, only the {MOST} that request the "
                    "most bytes were analysed; projections and advice refer to these",
                )
            counts = [signature.sample.counts for signature in signatures]
            estimated = any(work.estimated for work in counts if work is not None)
            for evidence in evidence_of(signatures, self._inspections, estimated=estimated):
                all_evidence.append(evidence)
                done = compiled + len(all_evidence)
                self._progress(Progress(stage="analysing", done=done, total=total))
        return all_evidence

    def _signature_rows(
        self, every: Mapping[_Kernel, Sequence[SignatureStats]]
    ) -> Iterator[tuple[SignatureStats, dict[str, Any]]]:
        device = None if self._on_device or not is_projected(self._device) else self._device
        for signatures in every.values():
            sources = dict.fromkeys(signature.key.source for signature in signatures)
            names = distinguishing_parts([source for source in sources if source is not None])
            for signature in signatures:
                source = signature.key.source
                name = names[source] if source is not None else ""
                evidence = self._by_signature.get(signature.key)
                inspection = evidence.inspection if evidence else None
                row = signature_row(signature, name, self._device, inspection)
                refused = None
                if inspection and not self._on_device:
                    refused = refusal(inspection, signature.key.grid)
                # A kernel compiled for another target cannot be projected for the device.
                if refused is not None:
                    row |= {"cannot_launch": refused, **dict.fromkeys(_OF_LAUNCHES, math.nan)}
                    row["limited_by"] = None
                elif device and evidence and evidence.inspection.target == device.target:
                    row |= _projected(evidence, device)
                yield signature, row

    # ---- kernels

    def _kernels(self) -> pd.DataFrame:
        """Return the frame of kernels, with figures from their signatures."""
        device = self._device
        frame = kernel_frame(
            self._samples,
            device,
            on_device=self._on_device,
            compiled=self._inspections if self._target else None,
            overheads=self._session.overheads,
        )
        keys = list(zip(frame["kernel"], frame["config"], strict=True))
        own: dict[_Kernel, list[dict[str, Any]]] = {}
        for row in self._rows.values():
            own.setdefault((row["kernel"], row["config"]), []).append(row)
        rows = [own.get(key, []) for key in keys]
        if self._target is not None and self._target.backend == "cuda":
            self._add_instructions(frame, keys)
        if self._target is not None and not self._on_device:
            _add_refusals(frame, rows)
        if device is None:
            return frame
        if is_projected(device) and not self._on_device:
            _add_projections(frame, rows)
        taken = frame["mean_s"] if self._on_device else frame.get("projected_s", float("nan"))
        frame["compute_share"] = frame["compute_s"].astype(float) / taken
        frame["memory_share"] = frame["memory_s"].astype(float) / taken
        return frame

    def _add_instructions(self, frame: pd.DataFrame, keys: Sequence[_Kernel]) -> None:
        """Add the instruction mix of each kernel's signature that requests most bytes overall."""
        largest = self._executed(lambda evidence: (evidence.kernel, evidence.config))
        executed = [largest.get(key) for key in keys]
        frame["instruction_mix"] = [dict(own.mix) if own else None for own in executed]
        frame["bank_conflicts"] = [own.conflict_share if own else None for own in executed]
        frame["bank_conflict_lines"] = [
            dict(own.conflict_lines) if own else None for own in executed
        ]

    def _executed_by_kernel(self) -> dict[str, Executed] | None:
        """Return the instructions that each kernel executes; None without an NVIDIA GPU."""
        if self._target is None or self._target.backend != "cuda":
            return None
        return self._executed(lambda evidence: evidence.kernel)

    def _executed(self, key: Callable[[Evidence], _K]) -> dict[_K, Executed]:
        """Return the instructions of the signature that requests most bytes in total, per key."""
        largest: dict[_K, tuple[float, Evidence]] = {}
        for evidence in self._evidence:
            if evidence.inspection.machine_code is None or evidence.counts is None:
                continue
            moved = evidence.signature.requested * evidence.signature.launches
            if moved > largest.get(key(evidence), (-math.inf,))[0]:
                largest[key(evidence)] = moved, evidence
        return {own: self._executed_of(evidence) for own, (_, evidence) in largest.items()}

    def _executed_of(self, evidence: Evidence) -> Executed:
        code, counts = evidence.inspection.machine_code, evidence.counts
        assert code is not None
        assert counts is not None
        key = evidence.signature.key
        if key not in self._mixes:
            self._mixes[key] = executed_by(code, counts, evidence.inspection.resources.warps)
        return self._mixes[key]

    # ---- advice

    def _advice(self, *, line_costs: bool) -> list[Hint]:
        hints: dict[tuple[object, ...], Hint] = {}
        totals = self._totals()
        for evidence in self._evidence:
            moved, taken = totals[evidence.kernel]
            signature = evidence.signature
            if (
                signature.requested * signature.launches < MATTERS * moved
                and signature.seconds < MATTERS * taken
            ):
                continue
            own = (evidence.kernel, evidence.config)
            alike = [other for other in self._evidence if (other.kernel, other.config) == own]
            for hint in advise(evidence, alike, line_costs=line_costs):
                hints.setdefault((hint.kernel, hint.config, hint.kind, hint.location), hint)
        return list(hints.values())

    def _totals(self) -> dict[str, tuple[float, float]]:
        """Return the requested bytes of each kernel, and its time if it ran on the device."""
        totals: dict[str, tuple[float, float]] = {}
        for sample in self._samples:
            moved, taken = totals.get(sample.kernel, (0.0, 0.0))
            moved += max(0, requested(sample)) * sample.launches
            totals[sample.kernel] = moved, taken + (sample.seconds if self._on_device else math.inf)
        return totals


def _add_refusals(frame: pd.DataFrame, rows: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Add why the target rejects launches; remove the bounds of kernels that it never runs."""
    reasons = [[row.get("cannot_launch") for row in own] for own in rows]
    if not any(map(any, reasons)):
        return
    frame["cannot_launch"] = [next(filter(None, own), None) for own in reasons]
    never = [bool(own) and all(own) for own in reasons]
    for name in _BOUNDS:
        if name in frame:
            frame.loc[never, name] = None if name == "limited_by" else math.nan


def _add_projections(frame: pd.DataFrame, rows: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Add the mean of the projections of a kernel's signatures."""
    projected = [[row for row in own if "projected_s" in row] for own in rows]
    for name in _PROJECTED:
        frame[name] = [_mean_of_launches(own, name) for own in projected]
    frame["projected_outside"] = [
        "; ".join(dict.fromkeys(filter(None, (row["projected_outside"] for row in own)))) or None
        for own in projected
    ]


def _mean_of_launches(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    launches = sum(row["launches"] for row in rows)
    return sum(row["launches"] * row[name] for row in rows) / launches if rows else float("nan")


def _projected(evidence: Evidence, device: Device) -> dict[str, Any]:
    assert evidence.counts is not None
    projection = project(evidence.counts, evidence.inspection, device, evidence.accesses)
    return {
        "projected_s": projection.seconds,
        "projected_low_s": projection.low,
        "projected_high_s": projection.high,
        "projected_outside": "; ".join(projection.outside) or None,
    }


# --- in notebooks ---------------------------------------------------------------------------------

_PLACE = ("kernel", "line", "|source")
_KERNELS = by_name(KERNELS)
_LINES = chosen(LINES, "time_share", "loaded", "stored", "flops")
_ACCESSES = chosen(
    ACCESSES,
    *("grid", "kind", "bits", "sectors_per_request", "ideal_per_request", "efficiency"),
)


def _parts(profiled: ProfileAnalysis) -> Iterator[Part]:
    """Yield the parts that are not empty."""
    rows = [finite(row) for row in profiled.frame.to_dict("records")]
    if not rows:
        yield Text("no kernel was launched")
        return
    yield _kernel_table(profiled, rows)
    lines = [_line_cells(finite(row)) for row in profiled.lines.to_dict("records")]
    if lines:
        yield Table("Lines", (*_PLACE, *map(_heading, _LINES), "what"), lines)
    accesses = [_access_cells(finite(row)) for row in profiled.accesses.to_dict("records")]
    if accesses:
        columns = (*_PLACE, *map(_heading, _ACCESSES))
        yield Table("Accesses by warps, per request", columns, accesses)
    advice = [
        (hint.kernel, *_place(hint.location), hint.evidence, hint.advice)
        for hint in profiled.advice
    ]
    if advice:
        yield Table("Advice", (*_PLACE, "what costs time", "what to try"), advice)
    if trials := str(profiled.trials):
        yield Text(trials)
    yield from (Text(f"{kernel}: {note}") for kernel, note in profiled.notes.items())


def _kernel_table(profiled: ProfileAnalysis, rows: Sequence[Mapping[str, Any]]) -> Table:
    names = shown_columns(rows)
    configs = any(row["config"] for row in rows)
    columns = ["kernel", *(["config"] if configs else [])]
    columns += [_heading(_KERNELS[name]) for name in names]
    cells = [
        [
            row["kernel"],
            *([row["config"]] if configs else []),
            *(_KERNELS[name].text(row.get(name)) for name in names),
        ]
        for row in rows
    ]
    device = f", bounds of {profiled.device.name}" if profiled.device else ""
    return Table(f"Kernels, timed on {profiled.timed_on}{device}", columns, cells)


def _heading(metric: Metric) -> str:
    """Return the heading of a column, marked with `>` for numbers as in `Table`."""
    return f"{'' if metric.kind == 'text' else '>'}{metric.heading}"


def _line_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    place = row["kernel"], *place_cells(row["file"], int(row["line"]))
    return (*place, *(metric.text(row[metric.name] or None) for metric in _LINES), line_facts(row))


def _access_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    place = row["kernel"], *place_cells(row["file"], int(row["line"]))
    return (*place, *(metric.text(row[metric.name]) for metric in _ACCESSES))


def _place(location: Any) -> tuple[str, str]:
    return place_cells(location.file, location.line) if location else ("", "")
