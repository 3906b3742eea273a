"""`Profile`: a profiled run, and what it says in frames, trees and advice.

Joins what the run's session has measured to what the target's compiler makes of its kernels. Must
not know how launches were timed or counted, nor how a profile is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ContextDecorator, ExitStack
from typing import TYPE_CHECKING, Any

from ttools.core.compilation.inspection import Inspection, disassembling
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.lock import LaunchCosts
from ttools.core.compilation.stages import compile_for
from ttools.core.errors import TtoolsError
from ttools.core.gpus.devices import Device
from ttools.core.gpus.targets import Target
from ttools.core.reports.report import config_text
from ttools.core.reports.shown import Part, ShowsItself
from ttools.profiler.gpu_time.instruction_mix import Executed, executed_by
from ttools.profiler.gpu_time.projection import is_projected, project, refusal
from ttools.profiler.report.access_frame import FORM, access_frame, qualities
from ttools.profiler.report.advice import MATTERS, Evidence, Hint, advise
from ttools.profiler.report.call_tree import Node, call_tree
from ttools.profiler.report.form_frame import form_frame, form_row
from ttools.profiler.report.forms import MOST, forms_of, judged, requested, told_apart
from ttools.profiler.report.frames import kernel_frame, line_frame
from ttools.profiler.report.graph_frame import graph_frame
from ttools.profiler.report.launch_costs import costs_of
from ttools.profiler.run.session import Sample, Session
from ttools.profiler.run.trials import Trials

if TYPE_CHECKING:
    import pandas as pd


#: What is not said of launches that the device refuses.
_OF_LAUNCHES = ("bound_s", "waves")
_BOUNDS = ("bound_s", "limited_by", "compute_s", "memory_s")


class Profile(ContextDecorator, ShowsItself):
    """A profiled run, as a context manager and as a decorator; made by `profile`.

    Attributes:
        device: whose roofline bounds launches.
        target: what kernels are compiled for, to report registers and the like.
        timed_on: where kernels are timed: `the CPU`, `the GPU`.
    """

    def __init__(self, session: Session, device: Device | None, target: Target | None) -> None:
        self._session, self.device, self.target = session, device, target
        self.timed_on = session.timed_on
        self._compiled: list[KernelSource] = []
        self._inspections: list[Inspection] = []
        self._active: list[ExitStack] = []
        #: What was found out of so many samples.
        self._known: tuple[int, list[Evidence]] = (0, [])
        self._judged = self._to_judge = 0

    @property
    def frame(self) -> pd.DataFrame:
        """A row per kernel and configuration; see `frames.kernel_frame` for the columns.

        Where there is a target, kernels are compiled for it when a frame is first asked for. A run
        on the CPU for a device of NVIDIA's has the columns `projected_s`, `projected_low_s` and
        `projected_high_s`, the mean time of a launch there and the interval it is in nine times in
        ten, and `projected_outside`, why it is less sure than that, or None. Where the
        target refuses launches, `cannot_launch` says why, and nothing is projected. With a device
        `compute_share` and `memory_share` are how near that time, or the one measured there, comes
        to its speed of light. For NVIDIA's GPUs `instruction_mix` has the share of each kind of
        instruction that warps execute in the largest launches, `bank_conflicts` how many turns of
        shared memory conflicts of its banks take, by all of them, and `bank_conflict_lines` the
        same of each line, `{"k.py:3": 0.2}`; all by the machine code.
        """
        frame = kernel_frame(
            self._session.samples,
            self.device,
            on_device=self._on_device,
            compiled=self.inspections if self.target else None,
            overheads=self._session.overheads,
        )
        if self.target is not None and self.target.backend == "cuda":
            self._add_instructions(frame)
        if self.target is not None and not self._on_device:
            self._add_refusals(frame)
        if self.device is None:
            return frame
        if is_projected(self.device) and not self._on_device:
            self._add_projections(frame)
        taken = frame["mean_s"] if self._on_device else frame.get("projected_s", float("nan"))
        frame["compute_share"] = frame["compute_s"].astype(float) / taken
        frame["memory_share"] = frame["memory_s"].astype(float) / taken
        return frame

    @property
    def _on_device(self) -> bool:
        return self.timed_on == "the GPU"

    def _add_instructions(self, frame: pd.DataFrame) -> None:
        """Of each kernel's form of launches that requests most."""
        with disassembling(self.inspections):
            pass
        largest: dict[tuple[str, str], tuple[float, Executed]] = {}
        for each in self._evidence():
            code, form = each.inspection.machine_code, each.form
            if code is None or each.counts is None or form is None:
                continue
            moved, key = form.requested * form.launches, (each.kernel, each.config)
            if key not in largest or moved > largest[key][0]:
                warps = each.inspection.resources.warps
                largest[key] = moved, executed_by(code, each.counts, warps)
        known = [largest.get(key) for key in zip(frame["kernel"], frame["config"], strict=True)]
        frame["instruction_mix"] = [dict(each[1].mix) if each else None for each in known]
        frame["bank_conflicts"] = [each[1].conflict_share if each else None for each in known]
        frame["bank_conflict_lines"] = [
            dict(each[1].conflict_lines) if each else None for each in known
        ]

    def _add_refusals(self, frame: pd.DataFrame) -> None:
        """Adds why the target refuses launches; no bound is given of kernels that it never runs."""
        own: dict[tuple[str, str], list[str | None]] = {}
        for row in self._form_rows():
            own.setdefault((row["kernel"], row["config"]), []).append(row.get("cannot_launch"))
        known = [own.get(key, []) for key in zip(frame["kernel"], frame["config"], strict=True)]
        if not any(map(any, known)):
            return
        frame["cannot_launch"] = [next(filter(None, each), None) for each in known]
        never = [bool(each) and all(each) for each in known]
        for name in _BOUNDS:
            if name in frame:
                frame.loc[never, name] = None if name == "limited_by" else math.nan

    def _add_projections(self, frame: pd.DataFrame) -> None:
        rows = self._form_rows()
        own: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in rows:
            if "projected_s" in row:
                own.setdefault((row["kernel"], row["config"]), []).append(row)
        known = [own.get(key, []) for key in zip(frame["kernel"], frame["config"], strict=True)]
        for name in ("projected_s", "projected_low_s", "projected_high_s"):
            frame[name] = [_mean_of_launches(each, name) for each in known]
        frame["projected_outside"] = [
            "; ".join(dict.fromkeys(filter(None, (r["projected_outside"] for r in each)))) or None
            for each in known
        ]

    @property
    def forms(self) -> pd.DataFrame:
        """A row per form of launches: those of one specialisation and grid that do the same.

        See `form_frame.form_frame` for the columns. Of a kernel and configuration at most 256 forms
        have what a target's compiler or the projection tells, those that request most.
        """
        return form_frame(self._form_rows())

    def _form_rows(self) -> list[dict[str, Any]]:
        samples = [each for each in self._session.samples if each.kind == "kernel"]
        device = None if self._on_device or not is_projected(self.device) else self.device
        judged = {id(e.form.sample): e for e in self._evidence() if e.form is not None}
        rows = []
        for forms in forms_of(samples, self._variants() if self.target else {}).values():
            names = told_apart(list({id(f.source): f.source for f in forms if f.source}.values()))
            for form in forms:
                found = judged.get(id(form.sample))
                row = form_row(form, names.get(id(form.source), ""), self.device, found)
                refused = None
                if found and not self._on_device:
                    refused = refusal(found.inspection, form.sample.grid)
                # Kernels for another target than the device's would be projected wrongly.
                if refused is not None:
                    row |= {"cannot_launch": refused, **dict.fromkeys(_OF_LAUNCHES, math.nan)}
                    row["limited_by"] = None
                elif device and found and found.inspection.target == device.target:
                    row |= _projected(found, device)
                rows.append(row)
        return rows

    @property
    def accesses(self) -> pd.DataFrame:
        """A row per access to tiles in memory, as the target's warps would make it.

        They are those of each form of launches, see `forms`. See `report.access_frame` for the
        columns; without a target or counts it is empty.
        """
        rows = {row["sample"]: row for row in self._form_rows()} if self.target else {}
        return access_frame(
            ({name: rows[id(e.form.sample)][name] for name in FORM}, e.accesses)
            for e in self._evidence()
            if e.form is not None
        )

    @property
    def advice(self) -> list[Hint]:
        """What costs time on the target, with evidence; empty without a target.

        Each form of launches is looked at, see `forms`, that has a twentieth of its kernel's bytes
        or time; of equal hints the one for the larger launch is given.
        """
        found: dict[tuple[object, ...], Hint] = {}
        totals = self._totals()
        for each in self._evidence():
            for hint in advise(each) if _matters(each, totals) else ():
                found.setdefault((hint.kernel, hint.config, hint.kind, hint.location), hint)
        return list(found.values())

    def _totals(self) -> dict[str, tuple[float, float]]:
        """Bytes that each kernel requests in all, and its time, if it was timed on the device."""
        found: dict[str, tuple[float, float]] = {}
        for sample in self._session.samples:
            moved, taken = found.get(sample.kernel, (0.0, 0.0))
            moved += max(0, requested(sample)) * sample.launches
            found[sample.kernel] = moved, taken + (sample.seconds if self._on_device else math.inf)
        return found

    def _evidence(self) -> list[Evidence]:
        """What is known of each form of launches, see `report.access_frame.qualities`."""
        samples = self._session.samples
        known, evidence = self._known
        if known == len(samples) or self.target is None:
            return evidence
        inspections, variants = self.inspections, self._variants()
        counted = [sample for sample in samples if sample.counts is not None]
        compiled = len(self._compiled)
        self._to_judge = compiled
        for (kernel, _), forms in forms_of(counted, variants).items():
            self._to_judge += len(judged(forms))
            if len(forms) > MOST:
                self._session.notes.setdefault(
                    kernel,
                    f"of its {len(forms)} grids and shapes those {MOST} were judged that request "
                    "most; projections and advice are by these",
                )
        evidence = []
        estimated = {_key(each) for each in counted if each.counts and each.counts.estimated}
        for form, inspection, accesses in qualities(samples, inspections, variants):
            # Of kernels that are estimated nothing is claimed that rests on what launches do.
            known = _key(form.sample) not in estimated
            evidence.append(
                Evidence(
                    kernel=form.sample.kernel,
                    config=config_text(form.sample.config),
                    inspection=inspection,
                    accesses=accesses if known else (),
                    counts=form.sample.counts if known else None,
                    form=form,
                )
            )
            self._judged = compiled + len(evidence)
        self._known = (len(samples), evidence)
        return evidence

    def _variants(self) -> dict[int, KernelSource]:
        """The session's, as those that were compiled."""
        found = self._session.variants
        for number, source in found.items():
            equal = (each for each in self._compiled if _is_same(each, source))
            found[number] = next(equal, source)
        return found

    @property
    def tree(self) -> Node:
        """Scopes, or Python's functions, with the kernels launched in them."""
        return call_tree(self._session.samples, self._session.scopes)

    @property
    def graphframe(self) -> Any:
        """The same tree as a `hatchet.GraphFrame` (llnl-hatchet), times in seconds."""
        return graph_frame([self.tree.as_literal()])

    @property
    def samples(self) -> Sequence[Sample]:
        """Every launch, in their order."""
        return tuple(self._session.samples)

    @property
    def lines(self) -> pd.DataFrame:
        """A row per line of source; see `frames.line_frame` for the columns."""
        return line_frame(self._session.samples)

    @property
    def seconds(self) -> dict[tuple[str, str], list[float]]:
        """The time of each launch, by kernel and configuration."""
        found: dict[tuple[str, str], list[float]] = {}
        for (_, kernel, config), seconds in self.seconds_by_scope.items():
            found.setdefault((kernel, config), []).extend(seconds)
        return found

    @property
    def seconds_by_scope(self) -> dict[tuple[tuple[str, ...], str, str], list[float]]:
        """The time of each launch, by the scopes around it, kernel and configuration."""
        found: dict[tuple[tuple[str, ...], str, str], list[float]] = {}
        for sample in self._session.samples:
            if sample.launches != 1:
                continue  # not timed apart
            key = sample.stack, sample.kernel, config_text(sample.config)
            found.setdefault(key, []).append(sample.seconds)
        return found

    @property
    def notes(self) -> dict[str, str]:
        """What could not be counted, by kernel."""
        return dict(self._session.notes)

    @property
    def unseen(self) -> str:
        """What takes time on a GPU and is in no figure, in a sentence; empty on the CPU."""
        return self._session.unseen

    @property
    def trials(self) -> Trials:
        """What was left out because autotuners only tried configurations, on a GPU."""
        return self._session.trials

    @property
    def launches(self) -> int:
        """How many kernels were launched in runs that have ended."""
        return sum(s.launches for s in self._session.samples if s.kind == "kernel")

    @property
    def seen(self) -> int:
        """How many of Triton's kernels were launched so far, also while the run lasts."""
        return self._session.seen

    @property
    def inspections(self) -> list[Inspection]:
        """What the target's compiler makes of each specialisation; compiled when first asked for.

        Kernels that do not compile for the target, or whose machine code no tool here can read, are
        left out and named in `notes`.
        """
        if self.target is None:
            return []
        variants = self._session.variants
        self._to_judge = len(variants)
        for source in variants.values():
            self._judged = len(self._compiled)
            if any(_is_same(each, source) for each in self._compiled):
                continue
            self._compiled.append(source)
            try:
                inspection = Inspection(compile_for(source, self.target))
                _ = inspection.resources  # reads the machine code
            except TtoolsError as error:
                self._session.notes.setdefault(source.name, str(error))
            else:
                self._inspections.append(inspection)
        return self._inspections

    @property
    def judged(self) -> tuple[int, int]:
        """How many specialisations and forms were judged so far, and of how many."""
        return self._judged, max(self._judged, self._to_judge)

    def judge(self) -> None:
        """Counts, compiles and judges now what figures need, instead of when they are asked for."""
        with disassembling(self.inspections):
            _ = self._session.samples
        self._evidence()

    @property
    def counted(self) -> tuple[int, int]:
        """How many kinds of launches `judge` has counted so far, and of how many."""
        return self._session.counted

    def costs_of(self, inspection: Inspection) -> LaunchCosts | None:
        """What launches of a compiled kernel do, whatever it was compiled for.

        None where none was counted, or another run may count something else.
        """
        return costs_of(inspection, self._session.samples, self._session.variants)

    def _shown(self) -> Iterator[Part]:
        from ttools.profiler.report.shown import shown_profile

        return shown_profile(self)

    def __enter__(self) -> Profile:
        with ExitStack() as stack:
            stack.enter_context(self._session.running())
            self._active.append(stack.pop_all())
        return self

    def __exit__(self, *raised: Any) -> None:
        self._active.pop().__exit__(*raised)


def _matters(evidence: Evidence, totals: Mapping[str, tuple[float, float]]) -> bool:
    """Whether the launches are a part of their kernel's that is worth advice."""
    form = evidence.form
    if form is None:
        return True
    moved, taken = totals[form.sample.kernel]
    return form.requested * form.launches >= MATTERS * moved or form.seconds >= MATTERS * taken


def _projected(found: Evidence, device: Device) -> dict[str, Any]:
    assert found.counts is not None
    each = project(found.counts, found.inspection, device, found.accesses)
    return {
        "projected_s": each.seconds,
        "projected_low_s": each.low,
        "projected_high_s": each.high,
        "projected_outside": "; ".join(each.outside) or None,
    }


def _key(sample: Sample) -> tuple[str, str]:
    return sample.kernel, config_text(sample.config)


def _mean_of_launches(rows: Sequence[dict[str, Any]], name: str) -> float:
    launches = sum(row["launches"] for row in rows)
    return sum(row["launches"] * row[name] for row in rows) / launches if rows else float("nan")


def _is_same(one: KernelSource, other: KernelSource) -> bool:
    return one.function is other.function and repr(one) == repr(other)
