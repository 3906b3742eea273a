"""Which configurations make the same launch: the same code, on the same grid, with the same values.

On the CPU those are all that differ in `num_warps` only, anywhere those that differ in what the
kernel does not use. Must not know how a configuration is compiled nor what is saved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from ttools.core import triton_versions
from ttools.interpreter.run.tuned_launch import TunedCall


def code_identity(launch: TunedCall, config: Any, code: Iterable[Any]) -> str | None:
    """A text that is equal for configurations of a launch that do the same.

    Args:
        config: the `triton.Config`.
        code: what was compiled of it, and with which options it is launched where they matter.

    Returns:
        None where that is unknown: hooks and heuristics may do anything, grids may raise.
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
    """Whether nothing but code, grid and values decides what a configuration does."""
    tuner = launch.tuner
    if config.pre_hook is not None or tuner.user_defined_pre_hook or tuner.user_defined_post_hook:
        return False
    constants = _constants(tuner)
    return all(name in constants for name in triton_versions.heuristic_names(tuner.fn))


def grid_of(arguments: Mapping[str, Any], config: Any) -> tuple[int, ...] | None:
    """The grid of a configuration; None if it cannot be asked without launching.

    Args:
        arguments: of the launch, `grid` among them, by name.
        config: the `triton.Config`.
    """
    grid: Any = arguments.get("grid")
    try:
        sizes = grid({**arguments, **config.all_kwargs()}) if callable(grid) else grid
        return tuple(int(size) for size in sizes)
    except Exception:  # noqa: BLE001 - a user's function, which may read memory that is not here
        return None


def _passed(launch: TunedCall, config: Any) -> dict[str, Any]:
    """What a configuration passes at run time; constants are in the code."""
    constants = _constants(launch.tuner)
    return {name: value for name, value in config.kwargs.items() if name not in constants}


def _constants(tuner: Any) -> set[str]:
    function = triton_versions.innermost_jit_function(tuner)
    return {each.name for each in function.params if each.is_constexpr}
