"""Detection of configurations that make the same launch: same code, same grid, same values.

On the CPU, configurations that differ only in launch options such as `num_warps` make the same
launch; on any device, so do configurations that differ only in parameters that the kernel does not
use. Each group of such configurations is verified and timed once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from ttools.core import triton_versions
from ttools.interpreter.run.tuned_launch import TunedCall


def code_identity(launch: TunedCall, config: Any, code: Iterable[Any]) -> str | None:
    """Return a string that is equal for configurations that make the same launch.

    Args:
        config: The `triton.Config` in question.
        code: Compiled code, and launch options where they have an effect.

    Returns:
        A SHA-256 digest, or None if equality cannot be decided, because hooks and heuristics may do
        anything and computing the grid may raise.
    """
    if not is_comparable(launch, config):
        return None
    grid = grid_of(launch.arguments, config)
    if grid is None:
        return None
    passed = sorted(_passed(launch, config).items())
    parts = [grid, passed, *code]
    whole = b"\0".join(part if isinstance(part, bytes) else repr(part).encode() for part in parts)
    return hashlib.sha256(whole).hexdigest()


def is_comparable(launch: TunedCall, config: Any) -> bool:
    """Return whether code, grid and values alone determine what a configuration does."""
    tuner = launch.tuner
    if config.pre_hook is not None or tuner.user_defined_pre_hook or tuner.user_defined_post_hook:
        return False
    constants = _constants(tuner)
    return all(name in constants for name in triton_versions.heuristic_names(tuner.fn))


def grid_of(arguments: Mapping[str, Any], config: Any) -> tuple[int, ...] | None:
    """Return the grid of a configuration, or None if it cannot be computed without a launch.

    Args:
        arguments: Arguments of the launch by name, including `grid`.
        config: The `triton.Config` in question.
    """
    grid: Any = arguments.get("grid")
    try:
        sizes = grid({**arguments, **config.all_kwargs()}) if callable(grid) else grid
        return tuple(int(size) for size in sizes)
    except Exception:  # noqa: BLE001 - the grid function may read memory of another process
        return None


def _passed(launch: TunedCall, config: Any) -> dict[str, Any]:
    """Return the parameters that are passed at run time; constants are part of the code."""
    constants = _constants(launch.tuner)
    return {name: value for name, value in config.kwargs.items() if name not in constants}


def _constants(tuner: Any) -> set[str]:
    function = triton_versions.innermost_jit_function(tuner)
    return {parameter.name for parameter in function.params if parameter.is_constexpr}
