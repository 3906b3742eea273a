"""Rules for block sizes and group sizes, for `@triton.heuristics` and launches that are not tuned.

The rules are pure functions of sizes; the docstring of each function states its rule. They are
starting points: `ttools tune` finds the best configuration on a device, and `ttools tune rules`
derives rules from its results.

The module is also a decorator: `@ttools.tuner.heuristics(values)` is equivalent to
`triton.heuristics(values)`, and `@ttools.tuner.heuristics("rules.json")` takes the values from a
file of rules that `ttools tune rules` wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ttools.core.errors import UsageError

#: Minimum and maximum number of elements per program of an elementwise kernel.
LEAST_BLOCK, MOST_BLOCK = 128, 8192
#: Number of programs that suffices to occupy all multiprocessors of current GPUs.
WANTED_PROGRAMS = 512
#: Maximum shared memory for the tiles of all stages, in bytes; this fits on sm_80 and sm_90.
TILE_BYTES = 96 * 1024
_SMALLEST_TILE = 16


class MatmulBlocks(NamedTuple):
    """The tile of a matrix product, and options of its launch."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int


def elementwise_block(elements: int, *, least: int = LEAST_BLOCK, most: int = MOST_BLOCK) -> int:
    """Return how many elements each program of an elementwise kernel should handle.

    The result is the largest power of two from `least` to `most` for which there are at least
    `WANTED_PROGRAMS` programs, or `least` if there are too few elements for that.

    Args:
        elements: Number of elements of the whole tensor.
        least: Smallest possible result, a power of two.
        most: Largest possible result, a power of two.

    Raises:
        UsageError: `elements` is negative, or the limits are not ordered powers of two.
    """
    _require(elements >= 0, f"elements={elements}: must not be negative")
    for name, limit in (("least", least), ("most", most)):
        _require(limit > 0 and not limit & (limit - 1), f"{name}={limit}: must be a power of two")
    _require(least <= most, f"least={least} is more than most={most}")
    block = most
    while block > least and elements < block * WANTED_PROGRAMS:
        block //= 2
    return block


def matmul_blocks(m: int, n: int, k: int, *, itemsize: int = 2) -> MatmulBlocks:
    """Return tile, warps and stages for a product of matrices of `m` by `k` and `k` by `n`.

    - The tile is the first of 256x128, 128x128, 128x64, 64x64, 64x32, 32x32 and 16x16 with at least
      `WANTED_PROGRAMS` / 4 programs. If `m` is less than `n`, the longer side is that of `n`. No
      side exceeds the matrix's side rounded up to a power of two, nor is it below 16, the minimum
      of `tl.dot`.
    - `block_k` covers 128 bytes of a row, with at least 16 elements, and at most `k` rounded up to
      a power of two.
    - Warps: 8 for tiles of at least 16,384 elements, 4 from 2,048 elements, else 2.
    - Stages: 4, or fewer if the tiles of all stages would exceed `TILE_BYTES`, and 1 if `k` is a
      single step.

    Args:
        m: Number of rows of the result.
        n: Number of columns of the result.
        k: Length of the sums.
        itemsize: Size of an element of the factors in bytes.

    Raises:
        UsageError: A size is not positive.
    """
    for name, size in (("m", m), ("n", n), ("k", k), ("itemsize", itemsize)):
        _require(size > 0, f"{name}={size}: must be positive")
    block_m, block_n = _tile(m, n)
    block_k = min(max(_SMALLEST_TILE, _floor_power(128 // itemsize or 1)), _side(k))
    area = block_m * block_n
    stage = (block_m + block_n) * block_k * itemsize
    stages = 1 if k <= block_k else max(1, min(4, TILE_BYTES // stage))
    return MatmulBlocks(
        block_m, block_n, block_k, 8 if area >= 16384 else 4 if area >= 2048 else 2, stages
    )


_TILES = ((256, 128), (128, 128), (128, 64), (64, 64), (64, 32), (32, 32), (16, 16))


def _tile(m: int, n: int) -> tuple[int, int]:
    tile = (_SMALLEST_TILE, _SMALLEST_TILE)
    for long, short in _TILES:
        tall, wide = (long, short) if m >= n else (short, long)
        tile = min(tall, _side(m)), min(wide, _side(n))
        if -(-m // tile[0]) * -(-n // tile[1]) >= WANTED_PROGRAMS // 4:
            break
    return tile


def _side(size: int) -> int:
    return max(_SMALLEST_TILE, 1 << (size - 1).bit_length())


def _floor_power(size: int) -> int:
    return 1 << (size.bit_length() - 1)


def group_size_by_intensity(
    m: int, n: int, k: int, *, block_m: int, block_n: int, itemsize: int = 2
) -> int:
    """Return how many rows of tiles consecutive programs should share (`GROUP_SIZE_M`).

    Consecutive programs of a group share columns of the second factor, which pays off if the
    product is limited by memory. The arithmetic intensity of a tile is 2·`block_m`·`block_n` /
    ((`block_m` + `block_n`)·`itemsize`) operations per byte. The group size is 16 if the intensity
    is below 64, 8 if it is below 128, and otherwise 4. It is at most the number of rows of tiles,
    rounded down to a power of two. It is 1 if there is a single column of tiles, or if both factors
    together are smaller than 4 MiB and fit in the cache.

    Args:
        m: Number of rows of the result.
        n: Number of columns of the result.
        k: Length of the sums.
        block_m: Number of rows of a tile.
        block_n: Number of columns of a tile.
        itemsize: Size of an element of the factors in bytes.

    Raises:
        UsageError: A size is not positive.
    """
    sizes = {"m": m, "n": n, "k": k, "block_m": block_m, "block_n": block_n, "itemsize": itemsize}
    for name, size in sizes.items():
        _require(size > 0, f"{name}={size}: must be positive")
    if n <= block_n or (m + n) * k * itemsize < 4 << 20:
        return 1
    intensity = 2 * block_m * block_n / ((block_m + block_n) * itemsize)
    wanted = 16 if intensity < 64 else 8 if intensity < 128 else 4
    return min(wanted, _floor_power(-(-m // block_m)))


def _require(right: bool, sentence: str) -> None:
    if not right:
        raise UsageError(sentence)


def decorate(values: Mapping[str, Callable[..., Any]] | Path | str) -> Callable[[Any], Any]:
    """Return a decorator that computes parameters of a kernel in each launch.

    Args:
        values: Functions of the arguments, by name of the parameter that they compute, as
            `triton.heuristics` takes them; or a file written by `ttools tune rules --format json`.

    Raises:
        UsageError: The file cannot be used, or has no rules for the kernel; raised on decoration.
    """
    import triton

    if isinstance(values, Mapping):
        return triton.heuristics(dict(values))  # type: ignore[no-any-return]
    file = Path(values)

    def decorator(kernel: Any) -> Any:
        from ttools.core.triton_versions import kernel_name
        from ttools.tuner.rules.document import heuristics_of

        return triton.heuristics(heuristics_of(file, kernel_name(kernel)))(kernel)

    return decorator


class _Decorator(ModuleType):
    """The class of this module; it makes the module callable."""

    def __call__(
        self, values: Mapping[str, Callable[..., Any]] | Path | str
    ) -> Callable[[Any], Any]:
        """Return a decorator, see `decorate`."""
        return decorate(values)


sys.modules[__name__].__class__ = _Decorator
