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


def state() -> list[Any]:
    """Return the states of the generators, which change when a number is drawn."""
    states = [torch.get_rng_state().tolist(), random.getstate()]
    if "numpy" in sys.modules:
        _, words, place, *_ = sys.modules["numpy"].random.get_state()
        states.append((words.tolist(), place))
    return states
