"""Autotuned launches that a GPU tuning takes over, here on the CPU."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from ttools.core import triton_versions
from ttools.tuner.measure.gpu_launch import is_active, tuning_on_gpu


@triton.autotune([triton.Config({"size": 4}), triton.Config({"size": 8})], key=[])
@triton.jit
def fill(out, value, size: tl.constexpr):
    tl.store(out + tl.arange(0, size), value)


def launch(value: float) -> list[float]:
    """Return the output of one launch."""
    out = torch.zeros(8)
    fill[(1,)](out, value)
    return out.tolist()


class Tuning:
    """Chooses the configuration with a given size, and records the launches."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.launches: list[Any] = []

    def __call__(self, launch: Any) -> Any:
        self.launches.append(launch)
        (config,) = [
            candidate for candidate in launch.configs if candidate.kwargs["size"] == self.size
        ]
        return launch.run(config)


def test_selected_kernels_are_tuned() -> None:
    tuning = Tuning(4)
    with tuning_on_gpu(lambda name: name == "fill", tuning):
        assert is_active()
        assert launch(2.0) == [2.0] * 4 + [0.0] * 4
    assert not is_active()
    assert [item.kernel for item in tuning.launches] == ["fill"]


def test_an_inner_tuning_leaves_other_kernels_to_the_outer() -> None:
    outer, inner, nothing = Tuning(4), Tuning(8), Tuning(8)
    with tuning_on_gpu(lambda _: True, outer):
        with tuning_on_gpu(lambda _: True, inner):
            assert launch(2.0) == [2.0] * 8
        with tuning_on_gpu(lambda _: False, nothing):
            assert launch(2.0) == [2.0] * 4 + [0.0] * 4
    assert [len(active.launches) for active in (outer, inner, nothing)] == [1, 1, 0]


def test_the_outer_tuning_may_end_first() -> None:
    run = triton_versions.autotuner_class().run
    tuning = Tuning(4)
    first, second = (
        tuning_on_gpu(lambda _: True, Tuning(8)),
        tuning_on_gpu(lambda _: True, tuning),
    )
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert is_active()
    assert launch(2.0) == [2.0] * 4 + [0.0] * 4
    second.__exit__(None, None, None)
    assert not is_active()
    assert triton_versions.autotuner_class().run is run
