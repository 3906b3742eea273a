"""Constants of a launch that host code chooses, and constants that it derives from the batch."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ttools.interpreter.run.kernel_launch import KernelLaunch


def chosen_constants(launch: KernelLaunch) -> dict[str, Any]:
    """Return the `tl.constexpr` parameters of a launch, and its number of warps, by name.

    Integer arguments that Triton has specialised are not included.
    """
    source = launch.kernel.source
    parameters = getattr(getattr(source, "fn", None), "params", ())
    constants = {
        parameters[path[0]].name: value
        for path, value in getattr(source, "constants", {}).items()
        if len(path) == 1 and path[0] < len(parameters) and parameters[path[0]].is_constexpr
    }
    return {**constants, "num_warps": launch.kernel.options.warps}


def derived_constants(
    first: Mapping[str, Any], second: Mapping[str, Any], ratio: Fraction
) -> list[str]:
    """Return the names of constants that differ without being proportional to the batch.

    Args:
        first: Constants of a launch.
        second: Constants of a launch with another extent of the batch.
        ratio: Ratio of the second extent to the first.
    """
    names = []
    for name, before in first.items():
        after = second.get(name)
        if before != after and not _is_proportional(before, after, ratio):
            names.append(name)
    return names


def _is_proportional(before: Any, after: Any, ratio: Fraction) -> bool:
    return type(before) is int and type(after) is int and after == before * ratio


def more_programs(
    first: tuple[int, ...], second: tuple[int, ...], ratio: Fraction
) -> dict[str, tuple[int, int]]:
    """Return the axes of the grid that have more programs for the smaller batch.

    A smaller batch has more programs along an axis only if host code divides the work into more
    parts.
    """
    return {
        f"the number of programs along axis {axis}": (before, after)
        for axis, (before, after) in enumerate(zip(first, second, strict=True))
        if (after > before and ratio < 1) or (after < before and ratio > 1)
    }
