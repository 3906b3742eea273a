"""Tests that replays of graphs agree with eager execution, for all operators that torch lists."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from ttools.core.errors import TtoolsError

pytestmark = [pytest.mark.usefixtures("mapped"), pytest.mark.slow]

#: Operators with uninitialised results, or whose results have other sizes on the CPU than for CUDA.
NOT_REPEATABLE = {
    *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    *("native_batch_norm", "_native_batch_norm_legit"),
}


def on_gpu(value: Any) -> Any:
    """Return a value with copies on the GPU instead of its dense tensors."""

    def copied(leaf: Any) -> Any:
        dense = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided
        return leaf.detach().clone().to("cuda") if dense and not leaf.is_nested else leaf

    return torch.utils._pytree.tree_map(copied, value)


def test_replays_agree_with_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("expecttest", reason="torch's lists of operators need expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    # The samples of random operators seed the generator inside the call, which graphs forbid.
    monkeypatch.setattr(torch, "manual_seed", lambda seed: torch.default_generator)
    agreed, differing = 0, []
    for op in op_db:
        if torch.float32 not in op.dtypes or op.name in NOT_REPEATABLE:
            continue
        for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 2):
            call = on_gpu((sample.input, sample.args, sample.kwargs))
            torch.cuda.manual_seed(3)
            try:
                input, args, kwargs = call
                expected = on_gpu(op(input, *args, **kwargs))
            except Exception:  # noqa: BLE001 - unsupported on the device, with or without graphs
                continue
            input, args, kwargs = on_gpu((sample.input, sample.args, sample.kwargs))
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph):
                    actual = op(input, *args, **kwargs)
            except (
                RuntimeError,
                TtoolsError,
            ):  # not permitted in graphs, by CUDA or by the device map
                torch.cuda.set_stream(torch.cuda.default_stream())
                continue
            torch.cuda.manual_seed(3)
            try:
                graph.replay()
                torch.testing.assert_close(actual, expected, equal_nan=True, check_device=False)
                agreed += 1
            except TtoolsError:
                continue
            except AssertionError as error:
                differing.append(f"{op.name}: {error}")
    assert not differing
    assert agreed > 900
