"""The grid of a launch of Inductor's, which processes that time a configuration are sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import triton

from ttools.core import inductor


class Launched(SimpleNamespace):
    """An autotuner of Inductor's with launchers, which refuses to be sent."""

    def __reduce__(self) -> NoReturn:
        raise AssertionError("pickle should not be called with after make_launchers()")


def test_a_grid_can_be_sent() -> None:
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
