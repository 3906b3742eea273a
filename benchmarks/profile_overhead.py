"""Measures the overhead of profiling on a GPU, for small launches and for matrix products.

    python benchmarks/profile_overhead.py [PART OF A NAME]

The sides are: no profiler, Proton, and `ttools profile`. All run many times in the same process, in
a random order in each round, after a garbage collection. For each side, the script prints the
shortest time, its ratio to Proton's shortest time, and the median ratio to Proton's time in the
same round with a 95% confidence interval. It also prints the shortest time including the start and
end of the session, and the shortest time until the samples are available. Needs an NVIDIA GPU.
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

from ttools.profiler import Profile, profile

#: Three durations in seconds: of the launches alone, including the start and end of the session,
#: and until the samples are available.
Times = list[tuple[float, float, float]]
ROUNDS = {"10,000 small launches": 60, "matmul sweep": 15}


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
    "ttools tree": lambda: profile(data="tree"),
    "proton trace": lambda: under_proton("trace"),
    "ttools trace": lambda: profile(),
}


#: The side that each side of ttools is compared with.
LIKE = {"ttools tree": "proton tree", "ttools trace": "proton trace"}


def once(side: Callable[[], Any], work: Callable[[], None]) -> tuple[float, float, float]:
    """Return seconds of the launches, of the whole session, and until samples are available."""
    gc.collect()
    start = time.perf_counter()
    with side() as session:
        inside = time.perf_counter()
        work()
        torch.cuda.synchronize()
        ran = time.perf_counter() - inside
    ended = time.perf_counter() - start
    if isinstance(session, Profile):
        assert session.analyse().samples
    return ran, ended, time.perf_counter() - start


def interval(values: list[float]) -> tuple[float, float]:
    """Return a 95% confidence interval of the median, by order statistics."""
    ordered, half = sorted(values), 0.98 * len(values) ** 0.5
    middle = (len(values) - 1) / 2
    return ordered[max(0, int(middle - half))], ordered[min(len(values) - 1, round(middle + half))]


def main() -> None:
    words = sys.argv[1:]
    print(torch.cuda.get_device_name(), "triton", triton.__version__)
    for name, make in (("10,000 small launches", small_launches), ("matmul sweep", matmul_sweep)):
        if words and not any(word in name for word in words):
            continue
        work = make()
        work()
        torch.cuda.synchronize()
        times: dict[str, Times] = {side: [] for side in SIDES}
        sides, order = list(SIDES.items()), random.Random(0)
        for side, context in sides:
            print(f"{name:24} {side:14} first session {once(context, work)[2]:.3f} s", flush=True)
        for _ in range(ROUNDS[name]):
            order.shuffle(sides)
            for side, context in sides:
                times[side].append(once(context, work))
        for side, samples in times.items():
            tell(name, side, samples, times[LIKE.get(side, side)])


def tell(name: str, side: str, samples: Times, like: Times) -> None:
    ran, ended, analysed = (min(sample[n] for sample in samples) for n in range(3))
    # Times differ more between rounds than between sides. Therefore the times of the same round are
    # compared, too.
    least = ran / min(sample[0] for sample in like) - 1
    ratios = [own[0] / other[0] - 1 for own, other in zip(samples, like, strict=True)]
    low, high = interval(ratios)
    whole = median(own[1] / other[1] - 1 for own, other in zip(samples, like, strict=True))
    print(
        f"{name:24} {side:14} {ran:8.4f} s running, {least:6.1%} over Proton's minimum, "
        f"{median(ratios):6.1%} in the median round ({low:.1%} to {high:.1%}), "
        f"{ended:7.3f} s with start and end ({whole:.1%}), "
        f"{analysed:7.3f} s until samples are known"
    )


if __name__ == "__main__":
    main()
