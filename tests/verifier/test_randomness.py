"""Generators of random numbers in the candidate's process."""

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
def test_processes_draw_other_numbers_and_it_is_seen(name: str) -> None:
    found = []
    for number in (1, 2, 1):
        randomness.begin(number)
        before = randomness.state()
        assert randomness.state() == before
        found.append(DRAWS[name]())
        assert randomness.state() != before
    assert found[0] == found[2] != found[1]
