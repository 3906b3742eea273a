"""The generators that programs draw from if they name none.

Processes that are forked from one begin with one state: a candidate that draws numbers would draw
the same in each, and look determined.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def begin(number: int) -> None:
    """Makes the generators those of a process of this number."""
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


def state() -> list[Any]:
    """What changes when somebody draws."""
    found = [torch.get_rng_state().tolist(), random.getstate()]
    if "numpy" in sys.modules:
        _, words, place, *_ = sys.modules["numpy"].random.get_state()
        found.append((words.tolist(), place))
    return found
