"""Seeds and reads the default random number generators of Python, NumPy and torch.

Processes that are forked from one process begin with the same state. Unless each process gets its
own seed, a candidate that draws random numbers draws the same ones in every process and looks
deterministic.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def begin(number: int) -> None:
    """Seed the generators with the number of a process, or with the seed of inputs."""
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % 2**32)


def seeds() -> dict[str, int]:
    """Return the seeds of torch's default generators, which do not change when a number is drawn.

    The generators of Python and NumPy do not keep their seeds.
    """
    own = {"torch": torch.initial_seed()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        own["torch.cuda"] = torch.cuda.initial_seed()
    return own


def reseeded(before: dict[str, int]) -> list[str]:
    """Return the modules whose default generators have another seed, and seed them as before.

    Without the earlier seed, a later call that uses the same seed again would not be noticed.

    Args:
        before: Earlier result of `seeds`.
    """
    now = seeds()
    names = [name for name, seed in before.items() if now.get(name, seed) != seed]
    if "torch" in names:
        torch.manual_seed(before["torch"])
    if "torch.cuda" in names:
        torch.cuda.manual_seed_all(before["torch.cuda"])
    return names


def state() -> list[Any]:
    """Return the states of the generators, which change when a number is drawn."""
    states = [torch.get_rng_state().tolist(), random.getstate()]
    if "numpy" in sys.modules:
        _, words, place, *_ = sys.modules["numpy"].random.get_state()
        states.append((words.tolist(), place))
    return states
