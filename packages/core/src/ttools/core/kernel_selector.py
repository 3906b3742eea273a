"""The argument `only` of runs, which selects kernels by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ttools.core.errors import UsageError


def kernel_selector(
    only: Sequence[str] | Callable[[str], bool] | None,
) -> Callable[[str], bool]:
    """Return a predicate on the names of kernels.

    Args:
        only: Names of kernels, or a predicate on names; None selects all kernels.

    Raises:
        UsageError: The argument is a string, whose characters would be treated as names.
    """
    if only is None:
        return lambda name: True
    if callable(only):
        return only
    if isinstance(only, str):
        raise UsageError(f"only={only!r}: must be a list of kernel names, as in only=[{only!r}]")
    return frozenset(only).__contains__
