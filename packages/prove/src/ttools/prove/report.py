"""Reports of the result of an analysis of sizes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING

from ttools.core.findings.findings import Finding, Related, Severity, TallyEntry
from ttools.core.gpus.launch_rules import RULES
from ttools.core.location import SourceLocation, location_of_line, user_location
from ttools.core.reports.report import Report, counted
from ttools.core.reports.sizes import KernelSizes, SizesVerdict, point_text, relations_text
from ttools.core.spec import ArgumentSpec, CallSite, LaunchSpec, TensorSpec
from ttools.ir import Operation, element_type, shape_of
from ttools.ir.combining import combined_by
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import COUNTED
from ttools.ir.type_names import type_in_words
from ttools.prove.grids import REFUSED
from ttools.prove.host.launches import Memory
from ttools.prove.result import Defect, Result, unique
from ttools.prove.symbolic.conditions import Problem

if TYPE_CHECKING:
    from ttools.sanitizer.checks.check import Check

_OTHER_SIZES = "launch the kernel at other sizes in the script, to confirm or refute the relation"
_NOUNS = {"oob_load": "load", "oob_store": "store", "oob_atomic": "atomic access"}


def make_report(result: Result, *, target: str = "", fail_on: Severity = "error") -> Report:
    """Return the report of an analysis."""
    findings = tuple(map(_finding, (*result.defects, *result.conditional)))
    from ttools.sanitizer.checks.registry import rules

    known_rules = rules()
    verdict = SizesVerdict(
        checked=result.checked,
        verdict=result.verdict,  # type: ignore[arg-type]
        assumptions=tuple(result.assumptions),
        abstained=tuple(result.abstained),
        sentences=tuple(_sentences(result)),
        kernels=tuple(k for part in result.parts or [result] for k in _kernels(part)),
        by_kernel=tuple(_by_kernel(result)),
        by_solver=tuple(dict.fromkeys(map(_settled, result.by_solver))),
        memory=result.memory,
        seconds=round(result.seconds, 3),
    )
    entries: dict[tuple[str, str | None], int] = {}
    for launch in result.launches:
        key = (launch.kernel, launch.line)
        entries[key] = entries.get(key, 0) + 1
    return Report(
        findings=findings,
        launches=tuple(
            TallyEntry(spec=_spec(kernel, line), count=count)
            for (kernel, line), count in entries.items()
        ),
        target=target,
        exit_code=0,
        fail_on=fail_on,
        rules={finding.kind: known_rules[finding.kind] for finding in findings},
        sizes=verdict,
    )


def _kernels(result: Result) -> Iterator[KernelSizes]:
    about = [a.kernel for a in result.abstained if a.kernel is not None]
    kernels = dict.fromkeys([*(launch.kernel for launch in result.launches), *about])
    for kernel in kernels or (["every launch"] if result.abstained else []):
        wrong = next((d for d in result.defects if d.launch.kernel == kernel), None)
        yield KernelSizes(
            kernel=kernel,
            checked=result.checked,
            failing=None if wrong is None else wrong.sizes,
            is_least=wrong is not None and wrong.is_least,
            failure="" if wrong is None else _what(wrong),
            unproved=tuple(a for a in result.abstained if a.kernel in (kernel, None)),
            scope=result.scope,
            relations=tuple(result.relations),
            kept=result.kept,
        )


def _by_kernel(result: Result) -> Iterator[KernelSizes]:
    """Yield one verdict for each kernel, even if a script launches it in several ways."""
    parts = [kernel for part in result.parts or [result] for kernel in _kernels(part)]
    for name in dict.fromkeys(part.kernel for part in parts):
        own = [part for part in parts if part.kernel == name]
        wrong = [defect for defect in result.defects if defect.launch.kernel == name]
        unproved = unique(chain.from_iterable(part.unproved for part in own))
        yield KernelSizes(
            kernel=name,
            checked=own[0].checked,
            failing=wrong[0].sizes if wrong else None,
            is_least=all(defect.is_least for defect in wrong) and not unproved,
            failure=_what(wrong[0]) if wrong else "",
            unproved=tuple(unproved),
            scope="; ".join(dict.fromkeys(part.scope for part in own if part.scope)),
            relations=tuple(dict.fromkeys(r for part in own for r in part.relations)),
            kept={
                argument: tuple(dict.fromkeys(v for p in own for v in p.kept.get(argument, ())))
                for argument in dict.fromkeys(chain.from_iterable(part.kept for part in own))
            },
        )
    others = tuple(a for a in result.abstained if a.kernel is None)
    if result.parts and others:
        yield KernelSizes(kernel="other launches", checked={}, unproved=others)


def _check_of(kind: str) -> type[Check]:
    """Return the check that reports a kind; checks are imported only here, because that is slow."""
    from ttools.sanitizer.checks.registry import CHECKS

    return next(check for check in CHECKS.values() if kind in check.kinds)


def _sentences(result: Result) -> Iterator[str]:
    """Yield one sentence for each kernel."""
    for kernel in dict.fromkeys(launch.kernel for launch in result.launches):
        wrong = [d for d in result.defects if d.launch.kernel == kernel]
        if not wrong:
            if not any(a.kernel in (kernel, None) for a in result.abstained):
                related = relations_text(result.relations)
                yield f"`{kernel}` is correct for all of these sizes{related}"
            continue
        first = wrong[0]
        (name, value), *others = first.sizes.items()
        low = result.checked[name][0]
        text = _what(first)
        if not others and first.is_least and value > low:
            least = f"`{kernel}` is correct for {name} up to {value - 1:,}; at {value:,} "
            unclear = any(a.kernel in (kernel, None) for a in result.abstained)
            yield (f"`{kernel}`: at {name} = {value:,} " if unclear else least) + text
        else:
            yield f"`{kernel}`: at {point_text(first.sizes)} {text}"


def _settled(problem: Problem) -> str:
    """Return a sentence that says which problem was excluded only by the solver."""
    words = {
        "int_overflow": "no integer wraps in the computation of an address",
        "view_oob": "no access is outside the elements passed",
        "overlapping_store": "programs and lanes store to different elements",
        "race": "no program reads an element that another one writes",
        "model": "integers stay in the ranges that other proofs need",
    }
    text = words.get(problem.kind, f"no {_NOUNS.get(problem.kind, 'access')} is out of bounds")
    where = user_location(problem.location)
    place = "" if where is None else f" ({where.file.rsplit('/', 1)[-1]}:{where.line})"
    return f"Z3 {version('z3-solver')} proved for `{problem.kernel}`: {text}{place}"


def _what(defect: Defect) -> str:
    kind, location = defect.event.kind, _location(defect, defect.event.op)
    words = {
        REFUSED: f"a GPU rejects the launch: {defect.event.refused}",
        "int_overflow": "an integer wraps in the computation of an address",
        "view_oob": "an access is outside the elements passed",
        "overlapping_store": "programs or lanes store to the same element",
        "race": "programs read and write the same element in no defined order",
    }
    noun = _NOUNS.get(kind, "access")
    article = "an" if noun.startswith("a") else "a"
    text = words.get(kind, f"{article} {noun} is out of bounds")
    if location is None:
        return text
    return f"{text} ({location.file.rsplit('/', 1)[-1]}:{location.line})"


def _finding(defect: Defect) -> Finding:
    event, launch = defect.event, defect.launch
    kind = event.kind
    check = _check_of(kind)
    declaration = check.kinds[kind]
    access = "load" if "load" in event.op.name else "store" if "store" in event.op.name else ""
    severity: Severity = declaration.severity
    if kind == "view_oob" and access == "load":
        severity = "warning"
    related: tuple[Related, ...] = ()
    if event.other is not None and event.other is not event.op:
        message = "the same element is accessed here"
        related = (Related(message=message, location=_location(defect, event.other)),)
    text = point_text(defect.sizes)
    # The message names the size, so a note is only needed if no smaller size has the defect.
    notes = [f"{text} is the smallest size at which it appears"] if defect.is_least else []
    if defect.depends_on:
        severity = "note"
        condition = f"if `{defect.depends_on}`, which was observed for one launch only"
        notes = [f"this needs independent sizes; it does not occur {condition}"]
    if event.promise:
        notes.append(f"this happens if {event.promise}, which the assumption allows")
    if defect.witness_note:
        notes.append(defect.witness_note)
    if defect.others:
        has = "has" if defect.others == 1 else "have"
        launches = counted(defect.others, "further launch", "further launches")
        notes.append(f"{launches} of `{launch.kernel}` {has} the same defect")
    x, y, z = (*event.program, 0, 0, 0)[:3] if event.program else (0, 0, 0)
    lane, shown = event.lane or None, defect.shown
    # The values of a real launch belong to this witness only if its program and lane are the same
    # as those of the witness.
    is_same = shown is not None and (shown.program, shown.lane) == ((x, y, z), lane)
    usual = RULES["grid"].help if kind == REFUSED else declaration.help
    usual = _OTHER_SIZES if defect.depends_on else usual
    return Finding(
        kind=kind,
        check=check.name,
        severity=severity,
        message=f"{_message(defect)}, at {text}",
        kernel=launch.kernel,
        argument=_argument(defect),
        location=_location(defect, event.op),
        program=(x, y, z),
        lane=lane,
        variables=shown.variables if shown is not None and is_same else (),
        shape=_shape(defect),
        notes=tuple(notes),
        related=related,
        launch=launch.line,
        config=launch.config,
        help=shown.help if shown is not None and shown.help else usual,
        sizes=dict(defect.sizes),
        witness=defect.witness,
    )


def _integer_of(op: Operation) -> str:
    """Return the type of the integer that wraps: the counter of a loop, or else the result."""
    values = op.operands if op.has(COUNTED) or not op.results else op.results
    return type_in_words(element_type(values[0].type))


def _location(defect: Defect, op: Operation) -> SourceLocation | None:
    """Return the innermost line in the user's kernel; if there is none, the line of the launch."""
    return user_location(op.location) or location_of_line(defect.launch.line)


def _message(defect: Defect) -> str:
    event, launch = defect.event, defect.launch
    name = launch.names[event.argument] if 0 <= event.argument < len(launch.names) else ""
    of = f" of `{name}`" if name else ""
    if event.kind == REFUSED:
        return f"a GPU rejects this launch: {event.refused}"
    if event.kind == "int_overflow":
        op = event.op
        noun = declared(combined_by(op) or op.name).noun or "loop counter"
        return f"an {_integer_of(op)} {noun} wraps around and reaches an address"
    if event.kind == "view_oob":
        return f"access outside the elements passed{of}"
    if event.kind == "overlapping_store":
        return f"several programs or lanes store to element {event.element:,}{of}"
    if event.kind == "race":
        return f"unordered accesses by several programs to element {event.element:,}{of}"
    return f"out-of-bounds {_NOUNS.get(event.kind, 'access')} of element {event.element:,}{of}"


def _shape(defect: Defect) -> tuple[int, ...]:
    pointer = defect.event.op.operand("ptr")
    shape = () if pointer is None else shape_of(pointer.type)
    return shape if len(shape) == len(defect.event.lane) else ()


def _spec(kernel: str, line: str | None) -> LaunchSpec:
    """Return a `LaunchSpec` with a dummy grid, because the grid depends on the sizes."""
    return LaunchSpec(kernel=kernel, grid=(0, 0, 0), site=CallSite(line=line))


def _argument(defect: Defect) -> ArgumentSpec | None:
    launch, index = defect.launch, defect.event.argument
    memory = launch.arguments[index] if 0 <= index < len(launch.arguments) else None
    if not isinstance(memory, Memory):
        return None
    sizes, item = defect.sizes, memory.dtype.itemsize
    tensor = TensorSpec(
        storage=0,
        offset=memory.offset.at(sizes) * item,
        shape=tuple(e.at(sizes) for e in memory.shape),
        strides=tuple(s.at(sizes) for s in memory.strides),
        dtype=str(memory.dtype).removeprefix("torch."),
        itemsize=item,
        storage_bytes=memory.elements.at(sizes) * item,
    )
    return ArgumentSpec(name=launch.names[index], value=tensor)
