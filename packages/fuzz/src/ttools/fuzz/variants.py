"""Variants in which a kernel is run: schedules, threads, orders, checks, LLVM levels, CPUs.

In every variant the kernel must compute the oracle's result, and the checks must find nothing.
"""

from __future__ import annotations

import platform
import random
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from ttools.core.context_values import in_environment


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run a kernel.

    Attributes:
        name: Unique name of the variant.
        schedule: Schedule of the engine.
        engine: Native code, or eager evaluation in Python.
        threads: Number of threads that run programs.
        order: Order in which programs start.
        checks: Checks of the sanitizer; empty to run without it.
        opt: Optimisation level of LLVM.
        cpu: Target CPU; empty for this machine.
        fusion: If True, a product and a sum may be contracted.
        simplified: If True, Triton's passes simplify the kernel, as they do for users.
        share: Frequency relative to other variants.
        short: If True, some tensors are too short for the kernel, and accesses past their ends are
            skipped.
        guarded: If True, all accesses are guarded, not only those that may leave their tensors.
    """

    name: str
    schedule: Literal["fused", "materialised"] = "fused"
    engine: Literal["native", "eager"] = "native"
    threads: int = 1
    order: Literal["natural", "reverse", "random"] = "natural"
    checks: str = ""
    opt: int = 2
    cpu: str = ""
    fusion: bool = True
    simplified: bool = True
    share: float = 1.0
    short: bool = False
    guarded: bool = False


BASELINE = Variant(name="native")
#: Variants in addition to the baseline; a few of them run for each kernel.
VARIANTS: tuple[Variant, ...] = (
    Variant(name="materialised", schedule="materialised"),
    Variant(name="two threads", threads=2),
    Variant(name="reverse order", order="reverse"),
    Variant(name="random order", order="random", threads=2),
    Variant(name="memcheck", checks="memcheck"),
    Variant(name="all checks", checks="all"),
    Variant(name="opt 0", opt=0),
    Variant(name="opt 1", opt=1),
    Variant(name="opt 3", opt=3),
    Variant(name="x86-64-v3", cpu="x86-64-v3"),
    Variant(name="x86-64-v2", cpu="x86-64-v2"),
    Variant(name="no fusion", fusion=False),
    Variant(name="materialised x86-64-v2", schedule="materialised", cpu="x86-64-v2", opt=1),
    # Unsimplified kernels represent other versions of Triton, which simplify kernels differently.
    Variant(name="unsimplified", simplified=False, share=2.0),
    Variant(name="unsimplified all checks", simplified=False, checks="all", share=0.5),
    Variant(name="eager", engine="eager", share=0.3),
    Variant(name="guarded", guarded=True),
    Variant(name="guarded x86-64-v2", guarded=True, cpu="x86-64-v2"),
    Variant(name="short tensors", short=True, threads=2),
    Variant(name="short tensors guarded", short=True, guarded=True),
    Variant(name="short tensors materialised", short=True, schedule="materialised"),
    Variant(name="short tensors x86-64-v3", short=True, cpu="x86-64-v3"),
    Variant(name="short tensors x86-64-v2", short=True, cpu="x86-64-v2"),
    Variant(name="short tensors unsimplified", short=True, simplified=False),
)
BY_NAME = {variant.name: variant for variant in (BASELINE, *VARIANTS)}


def usable(variants: Sequence[Variant] = VARIANTS) -> list[Variant]:
    """Return the variants that this machine can run."""
    from ttools.core.errors import UsageError
    from ttools.interpreter.native.jit import host_target

    runnable = []
    for variant in variants:
        if variant.cpu and platform.machine() not in ("x86_64", "AMD64"):
            continue
        try:
            host_target(variant.cpu)
        except UsageError:
            continue
        runnable.append(variant)
    return runnable


def chosen(seed: int, variants: Sequence[Variant], count: int) -> list[Variant]:
    """Return the baseline and `count - 1` other variants, drawn with the frequencies in `share`."""
    rng = random.Random(f"ttools-fuzz-variants-{seed}")
    order = sorted(variants, key=lambda variant: rng.random() ** (1 / variant.share), reverse=True)
    return [BASELINE, *order[: count - 1]]


def launch_options(variant: Variant) -> dict[str, int]:
    """Return the launch options that select a variant."""
    options: dict[str, int] = {} if variant.fusion else {"enable_fp_fusion": False}
    if not variant.simplified:
        options["num_stages"] = 1  # ignored by the engine, but part of the key of Triton's caches
    return options


def environment(variant: Variant, cpu: str = "") -> AbstractContextManager[None]:
    """Return a context that sets the environment variables of a variant.

    Args:
        cpu: Target CPU of variants that do not set one.
    """
    return in_environment({"TTOOLS_OPT": str(variant.opt), "TTOOLS_CPU": variant.cpu or cpu})
