"""What profiling costs on a GPU: small launches and matrix products, bare, under Proton, and ours.

    python benchmarks/profile_overhead.py [PART OF A NAME]

Each side runs in the same process many times, in another order in every round and without the
garbage of the one before. Told are the least time of each, by how much it is above the least of
Proton's, and the median of the ratios to Proton's in the same round. Needs an NVIDIA GPU.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import kernels
import torch
import triton

from ttools.profiler import profile

ROUNDS = {"10,000 small launches": 28, "matmul sweep": 7}


def small_launches() -> Callable[[], None]:
    x, y, out = (torch.ones(4096, device="cuda") for _ in range(3))

    def run() -> None:
        for _ in range(10_000):
            kernels.add_kernel[(4,)](x, y, out, 4096, BLOCK=1024)

    return run


def matmul_sweep() -> Callable[[], None]:
    sizes = (1024, 2048, 4096)
    shapes = [tuple(torch.randn(n, n, device="cuda").half() for _ in range(3)) for n in sizes]

    def run() -> None:
        for a, b, c in shapes:
            n = a.shape[0]
            for _ in range(20):
                kernels.matmul_kernel[(n // 128, n // 128)](
                    *(a, b, c, n, n, n, n, 1, n, 1, n, 1), BLOCK_M=128, BLOCK_N=128, BLOCK_K=64
                )

    return run


def under_proton(data: str) -> Any:
    import triton.profiler as proton

    folder = tempfile.mkdtemp()

    class Session:
        def __enter__(self) -> None:
            self.session = proton.start(str(Path(folder) / "p"), data=data)

        def __exit__(self, *error: object) -> None:
            torch.cuda.synchronize()
            proton.finalize(self.session)

    return Session()


SIDES: dict[str, Callable[[], Any]] = {
    "bare": nullcontext,
    "proton tree": lambda: under_proton("tree"),
    "ttools tree, no counts": lambda: profile(counts=False, data="tree"),
    "ttools tree": lambda: profile(data="tree"),
    "proton trace": lambda: under_proton("trace"),
    "ttools trace, no counts": lambda: profile(counts=False),
    "ttools trace": lambda: profile(),
}


#: What each of our sides is compared with.
LIKE = {
    "ttools tree, no counts": "proton tree",
    "ttools tree": "proton tree",
    "ttools trace, no counts": "proton trace",
    "ttools trace": "proton trace",
}


def main() -> None:
    words = sys.argv[1:]
    print(torch.cuda.get_device_name(), "triton", triton.__version__)
    for name, make in (("10,000 small launches", small_launches), ("matmul sweep", matmul_sweep)):
        if words and not any(word in name for word in words):
            continue
        work = make()
        work()
        torch.cuda.synchronize()
        times: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
        sides, order = list(SIDES.items()), random.Random(0)
        for _ in range(ROUNDS[name]):
            order.shuffle(sides)
            for side, context in sides:
                gc.collect()
                start = time.perf_counter()
                with context():
                    inside = time.perf_counter()
                    work()
                    torch.cuda.synchronize()
                    ran = time.perf_counter() - inside
                times[side].append((ran, time.perf_counter() - start))
        for side, found in times.items():
            ran, whole = (min(each[n] for each in found) for n in range(2))
            # Rounds differ more than sides do, so those of one round are compared, too.
            like = times[LIKE.get(side, side)]
            least = ran / min(each[0] for each in like) - 1
            over = median(own[0] / other[0] for own, other in zip(found, like, strict=True)) - 1
            print(
                f"{name:24} {side:24} {ran:8.4f} s running, {least:6.1%} over Proton's least, "
                f"{over:6.1%} in the middle round, {whole:8.3f} s with start and end"
            )


if __name__ == "__main__":
    main()
