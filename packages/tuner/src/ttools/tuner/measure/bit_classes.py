"""Classes of configurations that give equal bits on a GPU; the GPU need not be present.

Each configuration runs on the CPU with hashes that represent the order in which the GPU evaluates
its results; see `ttools.sanitizer.reproducibility`. Configurations with equal hashes give equal
bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.gpus.targets import Target
from ttools.core.process.user_module import describe
from ttools.core.reports.report import config_text
from ttools.interpreter import interpret
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.sanitizer.memory.launch_state import SavedMemory, tensors_among
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.sanitizer.reproducibility.differences import compare_launches, compare_runs
from ttools.sanitizer.reproducibility.run import HashedKernelRun, HashingObserver
from ttools.tuner.measure.reproducible import CLASSES, FIRST, BitClasses, read_values
from ttools.tuner.space.candidate import Candidate

#: Maximum number of programs per launch whose evaluation order is tracked.
_MOST_PROGRAMS = 64


def bit_classes(launch: TunedCall, space: Sequence[Candidate], target: Target) -> BitClasses:
    """Compare the configurations of a launch; memory is restored after each run.

    Args:
        launch: The launch, which runs on the CPU.
        space: The configurations to compare.
        target: The GPU whose orders of evaluation are compared.
    """
    saved = SavedMemory(tensors_among(launch.arguments.values()), UninitialisedMemory())
    firsts: list[tuple[str, HashedKernelRun]] = []
    same_as: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for candidate in space:
        run = _hashed(launch, candidate, target)
        saved.restore()
        reason = run if isinstance(run, str) else _unknown(run)
        if isinstance(run, str) or reason:
            same_as[candidate.key], unknown[candidate.key] = candidate.key, reason
            continue
        equal = (key for key, first in firsts if compare_launches(first, run).verdict == "equal")
        own = next(equal, None)
        if own is None:
            firsts.append((candidate.key, run))
        same_as[candidate.key] = own or candidate.key
    return BitClasses(target=target.name, same_as=same_as, unknown=unknown)


def _hashed(launch: TunedCall, candidate: Candidate, target: Target) -> HashedKernelRun | str:
    """Run a configuration with hashes; return a reason if this is not possible."""
    observer = HashingObserver(target, most_programs=_MOST_PROGRAMS)
    try:
        with interpret(observer=observer):
            launch.run(candidate.config)
    except Exception as error:  # noqa: BLE001 - Triton and hooks may raise anything
        return f"it fails: {describe(error)}"
    if len(observer.launches) != 1:
        return f"it makes {len(observer.launches)} launches"
    return observer.launches[0]


def _unknown(run: HashedKernelRun) -> str:
    """Return why a launch's bits may differ from another launch's; empty if they cannot."""
    if run.failure:
        return run.failure
    if not run.stored:
        return "it stores nothing"
    if any(compare_runs(stored.hashes).verdict != "equal" for stored in run.stored):
        return "its bits depend on the order of programs"
    comparison = compare_launches(run, run)
    return "" if comparison.verdict == "equal" else comparison.reason


def competing(classes: BitClasses, space: Sequence[Candidate], wanted: str) -> list[Candidate]:
    """Return the candidates that compete: all of them, or those that are bit-equal to a given one.

    Args:
        classes: The classes of the candidates.
        space: All candidates of the problem.
        wanted: `classes` for all candidates; `first` for those that are bit-equal to the first
            candidate; otherwise the values that identify a candidate, such as
            `BLOCK=64,num_warps=4`.

    Raises:
        UsageError: No candidate has these values, or several candidates that are not bit-equal have
            them.
    """
    if wanted == CLASSES:
        return list(space)
    if wanted == FIRST:
        chosen = [space[0]]
    else:
        values = read_values(wanted)
        chosen = [one for one in space if _has_values(one.values, values)]
        if not chosen:
            raise UsageError(f"no configuration has {wanted} (reproducible)")
    firsts = {classes.same_as[candidate.key] for candidate in chosen}
    if len(firsts) > 1:
        listed = " and ".join(config_text(dict(one.values)) for one in chosen[:2])
        raise UsageError(
            f"{len(chosen)} configurations have {wanted}, which are not all bit-equal on "
            f"{classes.target}: name one of them, such as {listed}"
        )
    equal = {*classes.equal_to(chosen[0].key)}
    return [candidate for candidate in space if candidate.key in equal]


def _has_values(values: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return all(name in values and str(values[name]) == text for name, text in wanted.items())
