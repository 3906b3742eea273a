"""Random number generators in the process of the candidate."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from ttools.verifier.workers import randomness

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
