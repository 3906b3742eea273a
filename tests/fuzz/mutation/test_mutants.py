"""Tests that mutants of captured kernels compute the same, and that differences are reported."""

from __future__ import annotations

import ast
import random
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.mutation import mutated_kernels as kernels

from ttools.fuzz.mutation import trial
from ttools.fuzz.mutation.capture import Captured, capture
from ttools.fuzz.mutation.mutators import MUTATORS
from ttools.fuzz.mutation.source import KernelText
from ttools.fuzz.mutation.trial import MutantTrial, Mutation
from ttools.fuzz.variants import BY_NAME

VARIANTS = [BY_NAME[name] for name in ("materialised", "opt 0", "two threads")]


@pytest.fixture(scope="module")
def captured() -> Captured:
    return capture(kernels.launch)


@pytest.fixture(scope="module")
def mutants(captured: Captured, tmp_path_factory: pytest.TempPathFactory) -> MutantTrial:
    return MutantTrial(captured, tmp_path_factory.mktemp("mutants"))


@pytest.mark.parametrize("name", [*MUTATORS, "split grid", "halved block"])
def test_each_mutation_preserves_every_bit(
    name: str, mutants: MutantTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_mutations", lambda rng: [Mutation(name, 3)])
    for seed in (0, 1):  # both kernels
        verdict = mutants.examine(seed, VARIANTS, 2)
        assert verdict.failures == (), verdict.failures


def test_a_difference_is_reported_with_the_mutation(
    mutants: MutantTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(text: KernelText, rng: random.Random) -> bool:
        for node in ast.walk(text.kernel):
            if isinstance(node, ast.AugAssign):
                node.op = ast.Sub()
                return True
        return False

    monkeypatch.setitem(MUTATORS, "spoil", spoil)
    mutations = [Mutation("rename", 1), Mutation("spoil", 2), Mutation("if true", 3)]
    monkeypatch.setattr(trial, "_mutations", lambda rng: mutations)
    (failure,) = mutants.examine(0, VARIANTS, 2).failures
    assert failure.kind == "wrong"
    head, *changes = failure.message.splitlines()
    assert "(spoil): `out_ptr`, element 0 of its storage, is " in head
    assert any(line.startswith("+") and "-=" in line for line in changes)
    assert not any("renamed" in line for line in changes)


LAUNCHES = (
    kernels.launch_described,
    kernels.launch_tuples,
    kernels.launch_closure,
    kernels.launch_views,
)


@pytest.mark.parametrize("launch", LAUNCHES)
def test_launches_with_arguments_of_other_types(
    launch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = capture(launch)
    assert (len(captured.launches), captured.left_out) == (1, {})
    mutants = MutantTrial(captured, tmp_path)
    changed = set()
    for name in (*MUTATORS, "split grid", "halved block"):
        monkeypatch.setattr(trial, "_mutations", lambda rng, name=name: [Mutation(name, 3)])
        verdict = mutants.examine(0, VARIANTS, 1)
        assert verdict.failures == (), verdict.failures
        changed.add(mutants.text(0))
    assert mutants.unfit == {}
    assert len(changed) > 5


@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_difference_is_reported_with_its_argument(
    launch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(text: KernelText, rng: random.Random) -> bool:
        for node in ast.walk(text.kernel):
            if isinstance(node, ast.Mult):
                continue
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                node.op = ast.Sub()
            if isinstance(node, ast.AugAssign):
                node.op = ast.Sub()
        return True

    monkeypatch.setitem(MUTATORS, "spoil", spoil)
    monkeypatch.setattr(trial, "_mutations", lambda rng: [Mutation("spoil", 2)])
    (failure,) = MutantTrial(capture(launch), tmp_path).examine(0, VARIANTS, 1).failures
    written = {"launch_described": "out_desc", "launch_tuples": "pointers[1]"}
    name = written.get(launch.__name__, "out_ptr")
    assert f"`{name}`, element " in failure.message


def test_kernels_with_out_of_bounds_accesses_are_omitted(tmp_path: Path) -> None:
    import torch

    def leave() -> None:
        # The accesses beyond the view stay inside its storage, so that they cannot crash.
        out = torch.zeros(128)[:100]
        kernels.elementwise_kernel[(2,)](
            torch.zeros(128), torch.zeros(128), out, 128, 1.5, BLOCK=64
        )

    mutants = MutantTrial(capture(leave), tmp_path)
    (failure,) = mutants.examine(0, VARIANTS, 2).failures
    assert "memcheck" in mutants.unfit["elementwise_kernel"]
    assert "no launch can be mutated" in failure.message


def test_mutants_of_a_library(tmp_path: Path) -> None:
    functional: Any = pytest.importorskip("liger_kernel.transformers.functional")
    import torch

    def launch() -> None:
        torch.manual_seed(0)
        functional.liger_swiglu(torch.randn(3, 37), torch.randn(3, 37))
        functional.liger_rms_norm(torch.randn(3, 37), torch.randn(37), 1e-6)

    captured = capture(launch)
    assert len(captured.launches) == 2, captured.left_out
    mutants = MutantTrial(captured, tmp_path)
    for seed in range(6):
        assert mutants.examine(seed, VARIANTS, 2).failures == ()
