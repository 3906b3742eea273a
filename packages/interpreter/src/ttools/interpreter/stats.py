"""Counts and times per kernel of an interpretation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class KernelStats:
    """What one kernel did while an interpretation was active; times in seconds.

    Attributes:
        kernel: the kernel's name.
        launches: how often it was launched.
        programs: how many programs ran, over all launches.
        front_end_s: Triton's front end, its passes and its cache.
        compile_s: parsing TTIR, emitting and compiling native code, or loading it from the cache.
        run_s: running the programs.
        cache_hits: native variants found in the object cache instead of compiled.
    """

    kernel: str
    launches: int = 0
    programs: int = 0
    front_end_s: float = 0.0
    compile_s: float = 0.0
    run_s: float = 0.0
    cache_hits: int = 0
