"""Tests of observing and replacing the steps of a launch, by several parties in any order."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.source_trees import nodes

from ttools.core import launch_path
from ttools.core.compilation.specialisation import launched
from ttools.core.launch_path import CALL, LAUNCHER, METADATA, TRIAL, TUNED, Step, observe, take_over
from ttools.core.patches import Patches
from ttools.interpreter import interpret
from ttools.sanitizer import sanitize

_STEPS = [
    *(value for value in vars(launch_path).values() if isinstance(value, Step)),
    *launch_path.OUTER_SUBSCRIPTS,
]


@triton.jit
def fill(out, value, size: tl.constexpr):
    tl.store(out + tl.arange(0, size), value)


@triton.autotune([triton.Config({"size": 4}), triton.Config({"size": 8})], key=[])
@triton.jit
def tuned_fill(out, value, size: tl.constexpr):
    tl.store(out + tl.arange(0, size), value)


def launch(kernel: Any = fill, **more: Any) -> torch.Tensor:
    """Launch a kernel once and return its output."""
    out = torch.zeros(8)
    kernel[(1,)](out, 3.0, **more)
    return out


def logging(log: list[str], label: str) -> Callable[[Any], Any]:
    """Return a replacement of a step that logs a label and then calls the original."""

    def make(method: Any) -> Any:
        def step(*args: Any, **kwargs: Any) -> Any:
            log.append(label)
            return method(*args, **kwargs)

        return step

    return make


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: f"{step.owner.__name__}.{step.method}")
def test_triton_has_every_step(step: Step) -> None:
    owner = step.owner()
    assert owner is None or hasattr(owner, step.method)


def test_a_step_that_triton_lacks_is_ignored() -> None:
    with Patches() as patches:
        take_over(patches, Step(lambda: None, "run"), lambda method: method)


def test_steps_occur_in_their_order() -> None:
    log: list[str] = []
    launch(tuned_fill)  # tune in advance, so that only the final launch is observed
    with interpret(), Patches() as patches:
        for step, label in ((TUNED, "tuned"), (CALL, "call"), (METADATA, "metadata")):
            observe(patches, step, before=lambda *_, label=label: log.append(label))
        launch(tuned_fill)
    assert log == ["tuned", "call", "metadata"]


def test_observers_receive_arguments_and_result() -> None:
    calls: list[Any] = []
    with interpret(), Patches() as patches:
        observe(
            patches,
            CALL,
            before=lambda function, args, kwargs: calls.append((function, args[1], kwargs["size"])),
            after=lambda function, args, kwargs, kernel: calls.append(kernel.src.fn),
        )
        assert launch(size=8).tolist() == [3.0] * 8
    assert calls == [(fill, 3.0, 8), fill]


def test_observers_are_called_after_failures() -> None:
    results: list[Any] = []
    with interpret(), Patches() as patches:
        observe(patches, CALL, after=lambda *arguments: results.append(arguments[-1]))
        with pytest.raises(TypeError):
            launch(nothing=1)
    assert results == [None]


def test_exceptions_of_observers_prevent_the_launch() -> None:
    def refuse(*_: Any) -> None:
        raise LookupError

    out = torch.zeros(8)
    with interpret(), Patches() as patches:
        observe(patches, CALL, before=refuse)
        with pytest.raises(LookupError):
            fill[(1,)](out, 3.0, size=8)
    assert out.tolist() == [0.0] * 8


def test_trials_of_the_autotuner_are_a_separate_step() -> None:
    tried: list[Any] = []
    fresh = triton.autotune([triton.Config({"size": n}) for n in (4, 8)], key=[])(fill)
    with interpret(), Patches() as patches:
        observe(patches, TRIAL, before=lambda _, args, kwargs: tried.append(kwargs["config"]))
        launch(fresh)
    assert [config.kwargs["size"] for config in tried] == [4, 8]


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_runs_and_observers_end_in_any_order(ended: int) -> None:
    log: list[str] = []
    watch = Patches(lambda patches: take_over(patches, CALL, logging(log, "watch")))
    contexts = [ExitStack() for _ in range(3)]
    contexts[0].enter_context(watch)
    contexts[1].enter_context(interpret())
    kernels = contexts[2].enter_context(launched())
    contexts.pop(ended).close()
    launch(size=8)
    assert log == ([] if ended == 0 else ["watch"])
    assert len(kernels) == (0 if ended == 2 else 1)
    for context in contexts:
        context.close()
    log.clear()
    launch(size=8)
    assert log == []


def test_runs_restore_all_attributes() -> None:
    def state() -> list[Any]:
        return [
            vars(step.owner()).get(step.method) for step in _STEPS if step.owner() is not None
        ] + [vars(torch.Tensor).get("data_ptr"), vars(torch).get("empty")]

    before = state()
    with sanitize(), interpret(), launched():
        launch(size=8)
        assert state() != before
    assert state() == before


def test_the_launcher_can_be_replaced_by_a_descriptor() -> None:
    log: list[str] = []

    class CustomLauncher:
        def __init__(self, original: Any) -> None:
            self._original = original

        def __get__(self, compiled: Any, kind: type | None = None) -> Any:
            if compiled is None:
                return self
            log.append(compiled.name)
            return self._original.__get__(compiled, kind)

    with interpret(), Patches() as patches:
        take_over(patches, LAUNCHER, CustomLauncher)
        launch(size=8)
    assert log == ["fill"]


#: Number of calls of `setattr` and `delattr` by file. They set attributes of objects of ttools or
#: of the parsed program, or restore a value.
_ALLOWED = {"patches.py": 2, "values.py": 6, "eager_source.py": 1, "process_end.py": 1}
_ALLOWED |= {"candidates.py": 1}
#: The verifier's worker processes restore what a candidate replaced, and disable torch.compile.
_ALLOWED |= {"module.py": 1, "patched.py": 1}


def test_only_patches_set_attributes_of_third_party_code() -> None:
    calls = Counter(
        path.name
        for path, node in nodes(("setattr", "delattr"))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("setattr", "delattr")
    )
    assert calls == _ALLOWED


def test_no_step_is_replaced_by_assignment() -> None:
    replaced = {"data_ptr", "excepthook", "jit_cache_hook", *(step.method for step in _STEPS)}
    assigned = [
        f"{path.name}:{node.lineno}"
        for path, node in nodes(f".{name}{end}" for name in replaced for end in (" =", ":", ","))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr in replaced
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert assigned == []
