"""Further shapes that kernels are timed for, besides those that tuners are compared on, for rules.

The first five of each were recorded first; the others lie between and around them, also where the
last turn of tiles on 132 multiprocessors is nearly empty or nearly full. Must not know any kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Shapes = Sequence[Mapping[str, int]]


def _shapes(names: str, *sizes: tuple[int, ...]) -> Shapes:
    return tuple(dict(zip(names.split(), each, strict=True)) for each in sizes)


_PRODUCTS = _shapes(
    "m n k",
    (2048, 2048, 2048),
    (1024, 1024, 1024),
    (4096, 512, 4096),
    (128, 8192, 4096),
    (8192, 8192, 1024),
    (512, 4096, 4096),
    (2048, 1024, 1024),
    (2048, 4096, 4096),
    (512, 1024, 4096),
    (8192, 4096, 4096),
    (128, 4096, 4096),
    (2048, 4096, 1024),
    (512, 4096, 1024),
    (8192, 1024, 4096),
    (3072, 3072, 3072),
    (512, 1024, 1024),
    (1536, 1536, 1536),
    (2048, 1024, 4096),
    (8192, 4096, 1024),
    (1024, 4096, 2048),
    (256, 8192, 2048),
    (4096, 1024, 2048),
    (1024, 2048, 4096),
    (4096, 8192, 2048),
    (128, 4096, 1024),
    (8192, 8192, 8192),
)
_ROWS = _shapes(
    "rows columns",
    (4096, 1024),
    (16384, 2048),
    (2048, 16384),
    (65536, 256),
    (1024, 4096),
    (8192, 1024),
    (4096, 8192),
    (2048, 2048),
    (16384, 512),
    (4096, 4096),
    (1024, 16384),
    (32768, 2048),
    (8192, 2048),
    (1024, 8192),
    (65536, 512),
    (4096, 768),
    (16384, 1024),
    (2048, 8192),
    (8192, 3072),
    (512, 16384),
    (131072, 256),
)
#: By the name of the problem.
MORE_SHAPES: Mapping[str, Shapes] = {
    "gelu": _shapes(
        "n",
        *((n,) for n in (1 << 24, 1 << 20, 1 << 25, 1 << 23, 3 << 19)),
        *((n,) for n in (1 << 21, 1 << 19, 3 << 23, 3 << 21, 3 << 18, 1 << 27)),
        *((n,) for n in (10_000_000, 3 << 20, 3 << 24, 1 << 17)),
    ),
    "softmax": _ROWS,
    "layer_norm": _ROWS,
    "matmul_fp16": _PRODUCTS,
    "matmul_fp8": _PRODUCTS,
    "attention": _shapes(
        "heads length head",
        (32, 2048, 64),
        (16, 1024, 128),
        (64, 512, 64),
        (32, 2048, 128),
        (8, 8192, 64),
        (128, 256, 64),
        (16, 8192, 128),
        (64, 512, 128),
    ),
    "grouped_matmul": _shapes(
        "groups m n k",
        (16, 256, 1024, 1024),
        (64, 64, 512, 2048),
        (8, 1024, 2048, 2048),
        (16, 512, 4096, 512),
        (2, 4096, 2048, 4096),
        (16, 256, 4096, 2048),
        (8, 512, 2048, 512),
        (8, 1024, 512, 4096),
    ),
}
