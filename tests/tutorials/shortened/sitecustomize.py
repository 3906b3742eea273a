"""Shortens the benchmarks of Triton's tutorials: only the first size is timed, and only briefly.

The tutorial that profiles ten thousand calls makes only one.

The reference results of the tutorials in f16 are accumulated in f32, as on a GPU. torch on the CPU
accumulates in f16, which is off by 0.06 in a layer normalisation, and a thousand times slower in a
matrix product. This file is only on the path of the tutorials' process; the tutorials themselves
are unmodified.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def _shorten_plots(module: ModuleType) -> None:
    original_init = module.Benchmark.__init__
    timed = module.do_bench

    def one_size(self: Any, *args: Any, **kwargs: Any) -> None:
        original_init(self, *args, **kwargs)
        self.x_vals = list(self.x_vals)[:1]

    def briefly(fn: Any, *args: Any, **kwargs: Any) -> Any:
        return timed(fn, *args, **{**kwargs, "warmup": 1, "rep": 5})

    module.Benchmark.__init__ = one_size  # type: ignore[method-assign]
    module.do_bench = briefly  # type: ignore[attr-defined]
    _reference_in_f32()


def _shorten_profiles(module: ModuleType) -> None:
    start = module.start

    def start_and_shorten(*args: Any, **kwargs: Any) -> Any:
        # The tutorial's `bench` has the numbers of calls and of warm-up calls as defaults.
        bench = getattr(sys.modules["__main__"], "bench", None)
        if getattr(bench, "__defaults__", None) == (10000, 10000):
            bench.__defaults__ = (1, 0)
        return start(*args, **kwargs)

    module.start = start_and_shorten  # type: ignore[attr-defined]


def _reference_in_f32() -> None:
    import torch

    normalise, multiply = torch.nn.functional.layer_norm, torch.matmul

    def in_f32(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        wide = [None if t is None else t.float() for t in (x, weight, bias)]
        return normalise(wide[0], shape, wide[1], wide[2], eps).to(x.dtype)

    def product(a: Any, b: Any) -> Any:
        return multiply(a.float(), b.float()).to(a.dtype)

    torch.nn.functional.layer_norm, torch.matmul = in_f32, product


_SHORTENED = {"triton.testing": _shorten_plots, "triton.profiler": _shorten_profiles}


class _Shortening(Loader):
    """Load a module and shorten the functions that it provides."""

    def __init__(self, loader: Loader, shorten: Callable[[ModuleType], None]) -> None:
        self.loader = loader
        self.shorten = shorten

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.shorten(module)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        shorten = _SHORTENED.pop(name, None)
        if shorten is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Shortening(spec.loader, shorten)
        return spec


sys.meta_path.insert(0, _Finder())
