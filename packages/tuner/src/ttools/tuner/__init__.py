"""Tunes Triton kernels: every configuration verified, timed, and remembered.

    with ttools.tuner.TuningRun(store=Path("tunings.sqlite")) as run:
        kernel[grid](...)  # an autotuned kernel
    run.results

    @ttools.tuner.tune(configs=[...], key=["n"])  # as `triton.autotune`
    @triton.jit
    def kernel(...): ...

The public names are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.tuner import heuristics
    from ttools.tuner.decorators import tune
    from ttools.tuner.options import TuneOptions
    from ttools.tuner.run import TuningRun

__all__ = ["TuneOptions", "TuningRun", "heuristics", "tune"]

_MODULES = {"TuneOptions": "options", "TuningRun": "run", "tune": "decorators"}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name == "heuristics":  # a module that may be called
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
