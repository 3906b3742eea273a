"""A Hypothesis strategy for the inputs of a kernel, from the domain that `verify` reads."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ttools.core.errors import UsageError
from ttools.verifier.cases.domain import entries_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def arguments_of(inputs: Callable[..., Any]) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy of the keyword arguments that `inputs` returns over its whole domain.

    Hypothesis shrinks sizes and seeds towards the lowest, and other parameters towards the first of
    their values.

    Args:
        inputs: Function with its domain in `DOMAIN` of its module or in its annotations.

    Raises:
        UsageError: Hypothesis is not installed, or a parameter has no domain.

    Examples:
        >>> @given(arguments_of(inputs))
        ... def test_softmax(arguments):
        ...     torch.testing.assert_close(softmax(**arguments), reference(**arguments))
    """
    try:
        from hypothesis import strategies
    except ImportError:
        raise UsageError("arguments_of() needs Hypothesis: pip install hypothesis") from None
    parameters: dict[str, SearchStrategy[Any]] = {}
    for name, entry in entries_of(sys.modules[inputs.__module__], inputs).items():
        if isinstance(entry, tuple):
            parameters[name] = strategies.integers(*entry)
        else:
            parameters[name] = strategies.sampled_from(entry)
    if "seed" in inspect.signature(inputs).parameters:
        parameters["seed"] = strategies.integers(0, 2**31 - 1)
    return strategies.fixed_dictionaries(parameters).map(lambda drawn: inputs(**drawn))
