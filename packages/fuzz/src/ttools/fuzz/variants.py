"""The ways in which one kernel is run: schedules, threads, orders, checks, levels, CPUs.

Every one must give what the oracle gives, and the checks must find nothing.
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
    """One way of running a kernel.

    Attributes:
        name: unique.
        schedule: of the engine.
        engine: native code or Python.
        threads: how many run programs.
        order: in which programs start.
        checks: the sanitizer's, if it runs the kernel.
        opt: LLVM's level.
        cpu: what code is made for; this machine if empty.
        fusion: whether a product and a sum may contract.
        simplified: whether Triton's passes simplify the kernel, as they do for users.
        share: how often it is run, compared with others.
        short: Whether some tensors are too short for the kernel: what is beyond their ends is
            skipped.
        guarded: Whether all accesses are guarded, and not only those that may leave their tensors.
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
#: What is run beside the baseline, a few of them for each kernel.
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
    # The forms of a kernel that other versions of Triton may leave.
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
    """The variants that this machine can run."""
    from ttools.core.errors import UsageError
    from ttools.interpreter.native.jit import host_target

    found = []
    for variant in variants:
        if variant.cpu and platform.machine() not in ("x86_64", "AMD64"):
            continue
        try:
            host_target(variant.cpu)
        except UsageError:
            continue
        found.append(variant)
    return found


def chosen(seed: int, variants: Sequence[Variant], count: int) -> list[Variant]:
    """The baseline and `count - 1` others, each as often as any over many seeds, or its share."""
    rng = random.Random(f"ttools-fuzz-variants-{seed}")
    order = sorted(variants, key=lambda variant: rng.random() ** (1 / variant.share), reverse=True)
    return [BASELINE, *order[: count - 1]]


def launch_options(variant: Variant) -> dict[str, int]:
    """The options of a launch that a variant is selected by."""
    options: dict[str, int] = {} if variant.fusion else {"enable_fp_fusion": False}
    if not variant.simplified:
        options["num_stages"] = 1  # nothing to the engine, but another kernel to Triton's caches
    return options


def environment(variant: Variant, cpu: str = "") -> AbstractContextManager[None]:
    """The environment variables that a variant is selected by.

    Args:
        cpu: the CPU of variants that name none.
    """
    return in_environment({"TTOOLS_OPT": str(variant.opt), "TTOOLS_CPU": variant.cpu or cpu})
