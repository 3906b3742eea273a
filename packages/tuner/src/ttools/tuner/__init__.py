"""Tuning of Triton kernels: configurations are verified, timed, and stored.

    with ttools.tuner.TuningRun(store=Path("tunings.sqlite")) as run:
        kernel[grid](...)  # an autotuned kernel
    run.results

    @ttools.tuner.tune(configs=[...], key=["n"])  # as `triton.autotune`
    @triton.jit
    def kernel(...): ...

The public names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.tuner import heuristics
    from ttools.tuner.decorators import tune
    from ttools.tuner.options import TuneOptions
    from ttools.tuner.run import TuningRun

__all__ = ["TuneOptions", "TuningRun", "heuristics", "tune"]

_MODULES = {"TuneOptions": "options", "TuningRun": "run", "heuristics": "", "tune": "decorators"}
__getattr__ = lazy_names(__name__, _MODULES)
