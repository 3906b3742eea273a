"""Trees as llnl-hatchet's `GraphFrame`, which is imported when first asked for.

Must not know where a tree comes from.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

from ttools.core.errors import UsageError


def graph_frame(literal: Sequence[Any]) -> Any:
    """A `hatchet.GraphFrame` of a forest in hatchet's literal form.

    Raises:
        UsageError: llnl-hatchet is not installed, or PyPI's other `hatchet` hides it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own use of pandas and of escape sequences
        try:
            kind = importlib.import_module("hatchet").GraphFrame
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"this needs llnl-hatchet, which cannot be imported here: {error}; "
                "`pip install triton-ttools[hatchet]` brings it"
            ) from error
        return kind.from_literal(list(literal))
