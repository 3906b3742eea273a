"""What a script launches, checked for all sizes: `check_launches(seen)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ttools.core.errors import UsageError
from ttools.core.findings.findings import Severity
from ttools.ir.expr import SIZE, Symbol
from ttools.prove.analysis import Analysis
from ttools.prove.api import SizesResult
from ttools.prove.contracts import Promise, contracts, promise_text
from ttools.prove.report import make_report
from ttools.prove.result import Abstention, Result
from ttools.prove.trace.inference import infer_template, with_counts
from ttools.prove.trace.launches import ScriptTrace, TracedLaunch
from ttools.prove.trace.random_tensors import RandomTensors
from ttools.prove.trace.template import MOST_ELEMENTS, Template
from ttools.prove.witness import with_witnesses

#: Launches that differ at all sizes.
_MOST = 32


def check_launches(
    seen: ScriptTrace,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    *,
    target: str = "",
    fail_on: Severity = "error",
    seconds: float = 25.0,
    assume: Mapping[str, Promise] | None = None,
) -> SizesResult:
    """Checks the launches that were seen of a script for all sizes.

    Which numbers of a launch are functions of which sizes is guessed from their being equal; every
    guess is among the assumptions of the report.

    Args:
        seen: the launches, noted by `trace_launches`.
        ranges: first and last value of sizes by name; others go from 1 on.
        target: what the report calls it.
        fail_on: from which severity on findings fail.
        seconds: for each launch, after which what is left of it is not proved.
        assume: what is promised of tables, by parameter of kernels, see `check_sizes`; each is for
            all launches that have the parameter.

    Raises:
        UsageError: something is assumed of a parameter that no launch has, is no formula of the
            sizes of one that has it, or is not so in the tensor that was passed.
    """
    ranges, assume = ranges or {}, assume or {}
    for name, promise in assume.items():
        if not any(has_table(launch, name) for launch in seen.launches):
            raise UsageError(
                f"--assume {name}={promise_text(promise)}: no kernel that is launched has a tensor "
                f"of integers as parameter `{name}`"
            )
    total = Result({}, assumptions=list(seen.remarks))
    for reason in seen.left_out:
        total.abstained.append(Abstention(f"not looked at: {reason}"))
    for number, general in enumerate(templates_of(seen, ranges)):
        if number >= _MOST:
            reason = f"more than {_MOST} launches that differ"
            total.abstained.append(Abstention(reason, kernel=general.launch.kernel))
            break
        promised = {n: p for n, p in assume.items() if has_table(general.launch, n)}
        _add(total, check_launch(general, ranges, seconds, promised)[1])
    for name in ranges:
        if name not in total.checked:
            total.abstained.append(Abstention(f"no launch has a size of the name `{name}`"))
    return SizesResult(make_report(total, target=target, fail_on=fail_on))


def templates_of(
    seen: ScriptTrace, ranges: Mapping[str, tuple[int, int]], most: int = MOST_ELEMENTS
) -> Iterator[Template]:
    """The launches of a script for all sizes, each once.

    Args:
        seen: the launches.
        ranges: of the sizes that the user names.
        most: elements of a tensor, beyond which sizes are not looked at.
    """
    known: set[object] = set()
    for launch in seen.launches:
        general = infer_template(launch, ranges, most)
        if general.key not in known:
            known.add(general.key)
            yield general


def has_table(launch: TracedLaunch, name: str) -> bool:
    """Whether a launch has a tensor of integers as that parameter."""
    tensor = launch.tensors.get(name)
    return tensor is not None and not tensor.dtype.is_floating_point


def _check_kept(general: Template, promised: Mapping[str, Promise]) -> None:
    """Holds what is promised against what the script passed."""
    symbols = {name: Symbol(name, "size", SIZE) for name in general.sizes}
    values = {symbols[name]: value for name, value in general.sizes.items()}
    for contract in contracts(promised, symbols):
        found = general.launch.contents.get(contract.parameter)
        if found is not None:
            contract.check(found, values, f"`{general.launch.kernel}` ({general.launch.line})")


def check_launch(
    general: Template,
    ranges: Mapping[str, tuple[int, int]],
    seconds: float,
    promised: Mapping[str, Promise],
) -> tuple[Template, Result]:
    """Checks one launch for all sizes.

    What a grid counts is guessed, and which tensors grow. Where it may be one thing or another,
    what leaves the least wrong is assumed.

    Returns:
        The launch as it was taken, and what is known of it.
    """

    def judged(reading: Template) -> tuple[Template, Result]:
        return reading, _check(reading, ranges, seconds, promised)

    best = judged(general)
    if best[1].verdict != "proved":
        other = infer_template(general.launch, ranges, general.most, by_axis=True)
        if other.key != general.key:
            best = min(best, judged(other), key=_wrong)
    if best[1].defects:
        at_fault = {
            d.launch.names[d.event.argument] for d in best[1].defects if d.event.argument >= 0
        }
        counting = with_counts(best[0], at_fault)
        if counting is not None:
            best = min(best, judged(counting), key=_wrong)
    if best[1].defects and best[0].computed:
        # With the constants of the script's own sizes it may be wrong at others by that alone.
        best[1].defects = [d for d in best[1].defects if best[0].has_constants_at(d.sizes)]
        if not best[1].defects:
            best = judged(best[0].with_computed())
    general, found = best
    found.defects = with_witnesses(found.defects, RandomTensors(general, promised).launch_at_ends)
    return general, found


def _wrong(judged: tuple[Template, Result]) -> tuple[int, bool]:
    """How much is wrong with a reading of a launch."""
    _, found = judged
    return len(found.defects), found.verdict != "proved"


def _check(
    general: Template,
    ranges: Mapping[str, tuple[int, int]],
    seconds: float,
    promised: Mapping[str, Promise],
) -> Result:
    kernel, line = general.launch.kernel, general.launch.line
    if not general.sizes:
        reason = "no number of this launch is seen to follow from what its tensors measure"
        return Result({}, abstained=[Abstention(reason, kernel=kernel)])
    _check_kept(general, promised)
    ends = {name: ranges.get(name, (1, general.most)) for name in general.sizes}
    found = Analysis(general.run, ends, seconds, promised).analyse()
    found.defects = [replace(d, launch=replace(d.launch, line=line)) for d in found.defects]
    found.launches = [replace(each, line=line) for each in found.launches]
    found.assumptions = [*general.assumptions, *found.assumptions]
    return found


def _add(total: Result, found: Result) -> None:
    """Adds what is known of one launch."""
    total.checked = {**total.checked, **found.checked}
    total.defects += found.defects
    total.launches += found.launches
    total.abstained += found.abstained
    total.by_solver += found.by_solver
    total.assumptions += [each for each in found.assumptions if each not in total.assumptions]
    total.seconds += found.seconds
    total.parts.append(found)
