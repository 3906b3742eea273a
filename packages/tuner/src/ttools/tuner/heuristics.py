"""Block sizes and groups by rule, for `@triton.heuristics` and for launches that are not tuned.

Pure functions of sizes; each documents its rule. They are starting points by hand: `ttools tune`
finds what is best on a device, and `ttools tune rules` makes rules of what it found.

The module is a decorator too: `@ttools.tuner.heuristics(values)` is `triton.heuristics(values)`,
and `@ttools.tuner.heuristics("rules.json")` takes the values from such rules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ttools.core.errors import UsageError

#: Elements that one program of an elementwise kernel handles, at least and at most.
LEAST_BLOCK, MOST_BLOCK = 128, 8192
#: Enough programs for every multiprocessor of today's GPUs to have some.
WANTED_PROGRAMS = 512
#: Bytes of shared memory that the tiles of all stages may take together; fits sm_80 and sm_90.
TILE_BYTES = 96 * 1024
_SMALLEST_TILE = 16


class MatmulBlocks(NamedTuple):
    """Tile of a matrix product, and options of its launch."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int


def elementwise_block(elements: int, *, least: int = LEAST_BLOCK, most: int = MOST_BLOCK) -> int:
    """Elements that each program of an elementwise kernel should handle.

    The largest power of two from `least` to `most` that still makes `WANTED_PROGRAMS` programs;
    `least` where there are too few elements for that.

    Args:
        elements: of the whole tensor.
        least: a power of two.
        most: a power of two.

    Raises:
        UsageError: `elements` is negative, or the limits are no powers of two in order.
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
    """Tile, warps and stages of a product of matrices of `m` by `k` and `k` by `n`.

    The tile is the first of 256x128, 128x128, 128x64, 64x64, 64x32, 32x32 and 16x16 that makes at
    least `WANTED_PROGRAMS` / 4 programs; where `m` is less than `n` its longer side is that of `n`.
    No side is longer than the next power of two of the matrix's, nor shorter than 16, which
    `tl.dot` asks for. `block_k` is 128 bytes of a row, at least 16 elements and at most the next
    power of two of `k`. Warps: 8 from 16,384 elements of the tile on, 4 from 2,048 on, else 2.
    Stages: 4, fewer where the tiles of all stages would take more than `TILE_BYTES`, and 1 if `k`
    is a single step.

    Args:
        m: rows of the result.
        n: columns of the result.
        k: the length of the sums.
        itemsize: bytes of an element of the factors.

    Raises:
        UsageError: a size is not positive.
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
    found = (_SMALLEST_TILE, _SMALLEST_TILE)
    for long, short in _TILES:
        tall, wide = (long, short) if m >= n else (short, long)
        found = min(tall, _side(m)), min(wide, _side(n))
        if -(-m // found[0]) * -(-n // found[1]) >= WANTED_PROGRAMS // 4:
            break
    return found


def _side(size: int) -> int:
    return max(_SMALLEST_TILE, 1 << (size - 1).bit_length())


def _floor_power(size: int) -> int:
    return 1 << (size.bit_length() - 1)


def group_size_by_intensity(
    m: int, n: int, k: int, *, block_m: int, block_n: int, itemsize: int = 2
) -> int:
    """Rows of tiles that the programs of a matrix product should work on together (`GROUP_SIZE_M`).

    Programs that follow each other share columns of the second factor if they are grouped. That
    pays where the product is limited by memory and there are rows to group. The arithmetic
    intensity of a tile is 2·`block_m`·`block_n` / ((`block_m` + `block_n`)·`itemsize`) operations a
    byte: below 64 the group is 16, below 128 it is 8, above 4; never more than there are rows of
    tiles, as a power of two; 1 where a single column of tiles leaves nothing to share, or where
    both factors together are smaller than 4 MiB and stay in the cache anyway.

    Args:
        m: rows of the result.
        n: columns of the result.
        k: the length of the sums.
        block_m: rows of a tile.
        block_n: columns of a tile.
        itemsize: bytes of an element of the factors.

    Raises:
        UsageError: a size is not positive.
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
    """A decorator that computes parameters of a kernel at each launch.

    Args:
        values: functions of the arguments by the name of the parameter, as `triton.heuristics`
            takes them; or a file that `ttools tune rules --format json` wrote.

    Raises:
        UsageError: the file cannot be used, or has no rules for the kernel; when it decorates.
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
    """This module, which may be called: `ttools.tuner.heuristics` names both."""

    def __call__(
        self, values: Mapping[str, Callable[..., Any]] | Path | str
    ) -> Callable[[Any], Any]:
        """See `decorate`."""
        return decorate(values)


sys.modules[__name__].__class__ = _Decorator
