"""Tests that the grid function of an Inductor launch can be sent to worker processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import triton

from ttools.core import inductor


class Launched(SimpleNamespace):
    """An autotuner with launchers, which, like Inductor's, cannot be pickled."""

    def __reduce__(self) -> NoReturn:
        raise AssertionError("pickle should not be called with after make_launchers()")


def test_grid_functions_can_be_pickled() -> None:
    cloudpickle: Any = pytest.importorskip("cloudpickle")
    pytest.importorskip("torch")
    autotuner = Launched(
        fn=SimpleNamespace(fn=print, params=[], arg_names=["xnumel"]),
        custom_kernel=False,
        triton_meta={},
        configs=[triton.Config({"XBLOCK": 128})],
        inductor_meta={"grid_type": "Grid1D", "extra_launcher_args": []},
    )
    grid = cloudpickle.loads(cloudpickle.dumps(inductor.grid_function(autotuner, [1000])))
    assert tuple(grid({"XBLOCK": 128})) == (8, 1, 1)
