"""Random number generators in the process of the candidate."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from ttools.verifier.workers import randomness
from ttools.verifier.workers.reference import Reference

DRAWS: dict[str, Callable[[], float]] = {
    "torch": lambda: torch.rand(1).item(),
    "random": random.random,
    "numpy": lambda: float(np.random.rand()),
}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    yield
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])


@pytest.mark.parametrize("name", DRAWS)
def test_random_candidates_differ_between_processes_and_are_detected(name: str) -> None:
    results = []
    for number in (1, 2, 1):
        randomness.begin(number)
        before = randomness.state()
        assert randomness.state() == before
        results.append(DRAWS[name]())
        assert randomness.state() != before
    assert results[0] == results[2] != results[1]


def test_new_seeds_are_noticed_at_each_call() -> None:
    randomness.begin(3)
    before = randomness.seeds()
    torch.rand(3)
    assert randomness.reseeded(before) == []
    for _ in range(2):
        torch.manual_seed(8)
        assert "torch" in randomness.reseeded(before)
    assert randomness.seeds() == before


def test_inputs_without_a_seed_are_equal_for_equal_cases(tmp_path: Path) -> None:
    path = tmp_path / "drawing.py"
    path.write_text(
        "import random\nimport torch\n\nDOMAIN = {'n': (1, 9)}\n\n\n"
        "def inputs(n):\n    return {'x': torch.randn(n), 'factor': random.random()}\n\n\n"
        "def reference(x, factor):\n    return x * factor\n"
    )
    reference = Reference(f"{path}:reference", f"{path}:inputs")
    assert "domain" in reference.answer({"do": "load"})

    def drawn(seed: int) -> object:
        request = {"do": "draw", "sizes": {"n": 4}, "choices": {}, "is_seeded": False}
        return reference.answer({**request, "seed": seed})["drawn"]

    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(2**40)


def test_a_parameter_without_a_domain_is_named(tmp_path: Path) -> None:
    path = tmp_path / "drawing.py"
    path.write_text("def inputs(n):\n    return {}\n\n\ndef reference():\n    return 1\n")
    answer = Reference(f"{path}:reference", f"{path}:inputs").answer({"do": "load"})
    assert answer["misuse"].startswith("inputs() has a parameter `n` without a domain")
