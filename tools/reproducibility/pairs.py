"""Verdicts about the pairs of executions of a case, and their bits on a GPU.

`verdicts` and `observations` return the pairs in the same order: two configurations, rows in a
batch and alone, and repeated runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any

import torch

from tools.reproducibility.cases import Case, Config, Draw, Tensors
from ttools.core.gpus.targets import read_target
from ttools.interpreter import interpret
from ttools.sanitizer.reproducibility.differences import compare_launches
from ttools.sanitizer.reproducibility.run import HashedKernelRun, HashingObserver
from ttools.verifier import reproduce
from ttools.verifier.reproducibility.api import parts_of_batch

TARGET = "sm_90"
#: How often a repeated run is compared with the first one, in each draw.
_REPEATED = 4


def _text(config: Config) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())


def _executed_twice(case: Case) -> list[Config]:
    """Return the configurations whose repeated runs are compared."""
    return [case.configs[0], case.configs[-1]]


# ---- verdicts


def verdicts(case: Case) -> list[dict[str, Any]]:
    """Return the verdict of ttools about each pair, with the seconds that it took."""
    answers = list(_configurations(case))
    function = partial(case.run, case.configs[0])
    if case.batch:
        began = time.monotonic()
        result = reproduce(
            function, case.inputs(Draw(0)), gpu=TARGET, questions=(), batch=case.batch
        )
        seconds = (time.monotonic() - began) / max(1, len(result.answers))
        answers += [
            _verdict("batch", one.subject, one.verdict, one.reason, seconds)
            for one in result.answers
        ]
    for config in _executed_twice(case):
        began = time.monotonic()
        result = reproduce(
            partial(case.run, config), case.inputs(Draw(0)), gpu=TARGET, questions=["runs"]
        )
        worst = min(result.answers, key=lambda one: _WORST.index(one.verdict))
        seconds = time.monotonic() - began
        answers.append(_verdict("runs", _text(config), worst.verdict, worst.reason, seconds))
    return answers


_WORST = ("differs", "unknown", "equal")


def _configurations(case: Case) -> Iterator[dict[str, Any]]:
    """Yield the verdicts about pairs of configurations, if each configuration makes one launch."""
    launches = []
    began = time.monotonic()
    for config in case.configs:
        observer = HashingObserver(read_target(TARGET))
        with interpret(observer=observer):
            case.run(config, **case.inputs(Draw(0)))
        launches.append(observer.launches)
    seconds = (time.monotonic() - began) / len(case.configs)
    for (one, first), (other, second) in combinations(zip(case.configs, launches, strict=True), 2):
        began = time.monotonic()
        if len(first) == len(second) == 1:
            verdict, reason = _compared(first[0], second[0])
        else:
            verdict, reason = "unknown", "a configuration makes several launches"
        spent = 2 * seconds + time.monotonic() - began
        yield _verdict("configs", f"{_text(one)} and {_text(other)}", verdict, reason, spent)


def _compared(first: HashedKernelRun, second: HashedKernelRun) -> tuple[str, str]:
    comparison = compare_launches(first, second)
    return comparison.verdict, comparison.reason or comparison.witness


def _verdict(
    question: str, subject: str, verdict: str, reason: str, seconds: float
) -> dict[str, Any]:
    return {
        "question": question,
        "subject": subject,
        "verdict": verdict,
        "reason": reason,
        "seconds": round(seconds, 3),
    }


# ---- bits


def observations(case: Case, draws: Iterable[int]) -> list[int]:
    """Return, for each pair, the number of the given draws in which its bits differ on the GPU."""
    counts: list[int] = []
    for seed in draws:
        differs = _differences(case, {n: t.cuda() for n, t in case.inputs(Draw(seed)).items()})
        counts = [a + b for a, b in zip(counts or [0] * len(differs), differs, strict=True)]
    return counts


def _differences(case: Case, inputs: Tensors) -> list[bool]:
    def execute(config: Config, tensors: Mapping[str, torch.Tensor] = inputs) -> list[torch.Tensor]:
        result = case.run(config, **{name: tensor.clone() for name, tensor in tensors.items()})
        return list(result) if isinstance(result, tuple) else [result]

    results = [execute(config) for config in case.configs]
    differs = [_differ(one, other) for one, other in combinations(results, 2)]
    differs += _rows_differ(case, inputs, results[0], partial(execute, case.configs[0]))
    for config in _executed_twice(case):
        first = results[list(case.configs).index(config)]
        differs.append(any(_differ(first, execute(config)) for _ in range(_REPEATED)))
    return differs


def _rows_differ(
    case: Case,
    inputs: Tensors,
    whole: list[torch.Tensor],
    execute: Callable[[Tensors], list[torch.Tensor]],
) -> Iterator[bool]:
    """Yield whether the rows of each smaller batch differ from those of the whole batch."""
    if not case.batch:
        return
    size = {inputs[name].shape[axis] for name, axis in case.batch.items()}.pop()
    for start, count in parts_of_batch(size):
        tensors = dict(inputs)
        for name, axis in case.batch.items():
            tensors[name] = tensors[name].narrow(axis, start, count)
        part, rows = [], []
        for one, other in zip(whole, execute(tensors), strict=True):
            axes = [n for n in range(one.dim()) if one.shape[n] != other.shape[n]]
            if axes:  # as in `reproduce`, results without an axis of the batch are left out
                part.append(other)
                rows.append(one.narrow(axes[0], start, count))
        yield _differ(rows, part)


def _differ(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    """Return whether any bit of two lists of tensors differs."""
    return any(
        not torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
        for one, other in zip(first, second, strict=True)
    )
