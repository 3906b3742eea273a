"""Checks of the launches of a script for all sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ttools.core.errors import UsageError
from ttools.core.findings.findings import Severity
from ttools.core.location import location_of_line, user_location
from ttools.core.reports.sizes import Unproved
from ttools.ir.expr import SIZE, Symbol
from ttools.prove.analysis import Analysis
from ttools.prove.api import SizesResult
from ttools.prove.contracts import Promise, contracts, promise_text
from ttools.prove.report import make_report
from ttools.prove.result import Defect, Result, unique
from ttools.prove.symbolic.conditions import DATA_DECIDE
from ttools.prove.trace.inference import infer_template
from ttools.prove.trace.launches import ScriptTrace, TracedCall
from ttools.prove.trace.random_tensors import RandomTensors
from ttools.prove.trace.relations import candidates
from ttools.prove.trace.template import Template
from ttools.prove.witness import with_witnesses

#: Maximum number of templates that are checked.
_MOST = 32
#: Maximum number of relations between sizes that are tried for a launch.
_MOST_RELATIONS = 8
_Attempt: TypeAlias = "tuple[Template, Result]"


def check_launches(
    trace: ScriptTrace,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    *,
    target: str = "",
    fail_on: Severity = "error",
    seconds: float = 25.0,
    assume: Mapping[str, Promise] | None = None,
    memory: int | None = None,
) -> SizesResult:
    """Check the launches of a script for all sizes.

    The numbers of a launch are replaced by expressions over sizes. Some of these expressions are
    guessed because values are equal; every guess is an assumption in the report.

    Args:
        trace: The launches, recorded by `trace_launches`.
        ranges: First and last value of sizes by name; other sizes start at 1.
        target: Name of the script in the report.
        fail_on: Lowest severity at which a finding counts as a failure.
        seconds: Time limit for each launch. Whatever is undecided when it is reached counts as not
            proved.
        assume: Assumptions about tables, by the kernel parameters to which they are passed; see
            `prove`. An assumption applies to all launches that have the parameter.
        memory: Bytes that the tensors of a launch may take; larger sizes are not considered. The
            default is 80 GB, or no limit for a launch all of whose sizes have a range.

    Raises:
        UsageError: No kernel has the parameter that an assumption names, an assumption is not a
            formula over the sizes of a launch, or the recorded tensor contradicts the assumption.
    """
    ranges, assume = ranges or {}, assume or {}
    for name, promise in assume.items():
        if not any(has_table(launch, name) for launch in trace.launches):
            raise UsageError(
                f"--assume {name}={promise_text(promise)}: no kernel that is launched has a tensor "
                f"of integers as parameter `{name}`"
            )
    total = Result({}, assumptions=list(trace.remarks))
    for reason in trace.left_out:
        total.abstained.append(Unproved(f"not analysed: {reason}"))
    for number, template in enumerate(templates_of(trace, ranges, memory)):
        if number >= _MOST:
            reason = f"more than {_MOST} different launches"
            total.abstained.append(Unproved(reason, kernel=template.launch.kernel))
            break
        promised = {n: p for n, p in assume.items() if has_table(template.launch, n)}
        _add(total, check_launch(template, ranges, seconds, promised, trace.launches)[1])
    for name in ranges:
        if name not in total.checked:
            total.abstained.append(Unproved(f"no launch has a size named `{name}`"))
    if not total.launches and not total.abstained:
        total.abstained.append(Unproved("no launch with known sizes was recorded"))
    return SizesResult(make_report(total, target=target, fail_on=fail_on))


def templates_of(
    trace: ScriptTrace, ranges: Mapping[str, tuple[int, int]], memory: int | None = None
) -> Iterator[Template]:
    """Yield the distinct templates of a script's launches.

    Args:
        ranges: Ranges of the sizes that the user names.
        memory: Bytes that the tensors of a launch may take, see `check_launches`.
    """
    keys: set[object] = set()
    for launch in trace.launches:
        template = infer_template(launch, ranges, memory)
        if template.key not in keys:
            keys.add(template.key)
            yield template


def has_table(launch: TracedCall, name: str) -> bool:
    """Return whether a launch passes a tensor of integers as the parameter `name`."""
    tensor = launch.tensors.get(name)
    return tensor is not None and not tensor.dtype.is_floating_point


def _check_kept(template: Template, promised: Mapping[str, Promise]) -> None:
    """Compare the assumptions with the tables that the script passed."""
    symbols = {name: Symbol(name, "size", SIZE) for name in template.sizes}
    values = {symbols[name]: value for name, value in template.sizes.items()}
    for contract in contracts(promised, symbols):
        contents = template.launch.contents.get(contract.parameter)
        if contents is not None:
            contract.check(contents, values, f"`{template.launch.kernel}` ({template.launch.line})")


def check_launch(
    template: Template,
    ranges: Mapping[str, tuple[int, int]],
    seconds: float,
    promised: Mapping[str, Promise],
    launches: Sequence[TracedCall] = (),
) -> tuple[Template, Result]:
    """Check one launch for all sizes.

    It has to be guessed what the extents of the grid count (blocks of an argument, or elements of
    an axis) and which tensors grow with a size. If several templates are possible, the one with the
    fewest defects is used. If a failure disappears because sizes are related in a way that holds in
    all recorded launches, this relation becomes a condition of the verdict.

    Args:
        launches: All launches of the script, with which relations are compared.

    Returns:
        The template and its result.
    """

    def checked(reading: Template, limit: float = seconds) -> _Attempt:
        return reading, _check(reading, ranges, limit, promised)

    best = checked(template)
    if best[1].verdict != "proved":
        other = infer_template(template.launch, ranges, template.memory, by_axis=True)
        if other.key != template.key:
            best = min(best, checked(other), key=_wrong)
    best = _related(best, checked, launches, ranges, seconds)
    if best[1].defects and best[0].computed:
        # A launch may fail at other sizes only because its constants are those of the recorded
        # sizes, so such defects are dropped.
        best[1].defects = [d for d in best[1].defects if best[0].has_constants_at(d.sizes)]
        if not best[1].defects:
            conditional = best[1].conditional
            best = checked(best[0].with_computed())
            best[1].conditional = conditional
    template, result = best
    kept = [name for name, value in template.kept.items() if value > 0]
    if kept and result.verdict == "proved" and not template.computes:
        # The proof may not need the values of these arguments. Defects at other values are not of
        # interest, so the attempt may take only about as long as the proof.
        freed = {*ranges, *kept}
        args = (template.memory, template.by_axis, template.relations)
        limit = min(seconds, 1 + 2 * result.seconds)
        attempt = checked(infer_template(template.launch, freed, *args), limit)
        if attempt[1].verdict == "proved":
            attempt[1].conditional = result.conditional
            template, result = attempt
    result.defects = with_witnesses(
        result.defects, RandomTensors(template, promised).launch_at_ends
    )
    return template, result


def _related(
    best: _Attempt,
    checked: Callable[[Template], _Attempt],
    launches: Sequence[TracedCall],
    ranges: Mapping[str, tuple[int, int]],
    seconds: float,
) -> _Attempt:
    """Return the result under the relations between sizes that make failures disappear.

    If a relation is supported by only one launch, a failure that disappears under it is kept in
    `Result.conditional`.

    Args:
        best: The best result without relations.
        checked: Returns a template with the result of its check.
        launches: All launches of the script, with which relations are compared.
        ranges: Ranges of the sizes that the user names.
        seconds: Time limit for all relations together; the last relation may exceed it.
    """
    spent = 0.0
    tried: set[object] = {best[0].key}
    is_better = True
    while is_better:
        is_better = False
        template, result = best
        at_fault = {
            d.launch.names[d.event.argument]
            for d in result.defects
            if d.event.argument >= 0 and _is_outside(d)
        }
        for relation in candidates(template, at_fault, launches, ranges) if at_fault else ():
            relations = [*template.relations, relation]
            other = infer_template(
                template.launch, ranges, template.memory, template.by_axis, relations
            )
            is_possible = all(r.formula.names <= other.sizes.keys() for r in relations)
            if not is_possible or other.key in tried:
                continue
            if len(tried) > _MOST_RELATIONS or spent > seconds:
                return best
            tried.add(other.key)
            attempt = checked(other)
            spent += attempt[1].seconds
            gone = _disappeared(result, attempt[1])
            if gone:
                text = relation.stated.text if relation.stated.is_hypothesis else ""
                conditional = [replace(defect, depends_on=text) for defect in gone if text]
                attempt[1].conditional = [*result.conditional, *conditional]
                best, is_better = attempt, True
                break
    return best


def _is_outside(defect: Defect) -> bool:
    """Return whether a defect is an access outside of a tensor."""
    return "oob" in defect.event.kind


def _disappeared(before: Result, after: Result) -> list[Defect]:
    """Return the defects that disappear under a relation.

    A defect has disappeared only if its access is proved, except for what depends on loaded data.
    The result is empty if the effects of the relation are not completely known.
    """
    left = {defect.key for defect in after.defects}
    gone = [defect for defect in before.defects if defect.key not in left]
    if not after.launches or not left <= {defect.key for defect in before.defects}:
        return []
    if not all(map(_is_outside, gone)):
        return []  # other defects do not depend on which tensors are large enough
    undecided = [a for a in after.abstained if a.phrase != DATA_DECIDE]
    for defect in gone:
        places = (user_location(defect.event.op.location), location_of_line(defect.launch.line))
        lines = {(place.file, place.line) for place in places if place is not None}
        if any(a.line is None or (a.file, a.line) in lines for a in undecided):
            return []
    return gone


def _wrong(attempt: _Attempt) -> tuple[int, bool]:
    """Return a key for comparing the results of templates; the best result has the smallest key."""
    _, result = attempt
    return len(result.defects), result.verdict != "proved"


def _check(
    template: Template,
    ranges: Mapping[str, tuple[int, int]],
    seconds: float,
    promised: Mapping[str, Promise],
) -> Result:
    kernel, line = template.launch.kernel, template.launch.line
    if not template.sizes:
        reason = "no number in this launch could be derived from the shapes of its tensors"
        return Result({}, abstained=[Unproved(reason, kernel=kernel)])
    _check_kept(template, promised)
    ends = template.ends(ranges)
    result = Analysis(template.run, ends, seconds, promised, within=template.within).analyse()
    result.scope, result.memory = template.scope(ranges), template.memory
    result.relations = [relation.stated for relation in template.relations]
    result.kept = {name: (value,) for name, value in template.kept.items()}
    if not (result.launches or result.abstained):
        reason = f"no launch is possible for {result.scope}"
        result.abstained.append(Unproved(reason, kernel=kernel, phrase="no launch is possible"))
    result.abstained = [_located(unproved, template.launch) for unproved in result.abstained]
    result.defects = [replace(d, launch=replace(d.launch, line=line)) for d in result.defects]
    result.launches = [replace(checked, line=line) for checked in result.launches]
    result.assumptions = [*template.assumptions, *result.assumptions]
    return result


def _located(unproved: Unproved, launch: TracedCall) -> Unproved:
    """Return an unproved goal; if it has no line of a kernel, it gets the line of the launch."""
    location = location_of_line(launch.line)
    if unproved.file is not None or location is None:
        return replace(unproved, kernel=unproved.kernel or launch.kernel)
    line, file = location.line, location.file
    return replace(unproved, kernel=launch.kernel, line=line, file=file)


def _product(defect: Defect) -> int:
    return math.prod(defect.sizes.values())


def _add(total: Result, result: Result) -> None:
    """Add the result of one launch; a defect that several launches have appears only once."""
    total.checked = {**total.checked, **result.checked}
    total.memory = result.memory if total.memory is None else total.memory
    defects: dict[object, Defect] = {defect.key: defect for defect in total.defects}
    for defect in result.defects:
        other = defects.get(defect.key)
        if other is None:
            defects[defect.key] = defect
            continue
        first = min(other, defect, key=_product)
        # With several sizes, the other launch may fail at smaller values of one of them.
        is_least = other.is_least and defect.is_least and len(first.sizes) == 1
        defects[defect.key] = replace(first, is_least=is_least, others=other.others + 1)
    total.defects = sorted(defects.values(), key=_product)
    total.conditional = [
        defect
        for key, defect in {d.key: d for d in (*result.conditional, *total.conditional)}.items()
        if key not in defects
    ]
    total.relations = list(dict.fromkeys((*total.relations, *result.relations)))
    total.launches += result.launches
    total.abstained = unique([*total.abstained, *result.abstained])
    total.by_solver += result.by_solver
    total.assumptions += [
        assumption for assumption in result.assumptions if assumption not in total.assumptions
    ]
    total.seconds += result.seconds
    total.parts.append(result)
