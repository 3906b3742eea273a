"""Operators of Liger-Kernel, forward and backward, at sizes that every version of them takes.

    ttools inspect --lock perf.lock benchmarks/workloads/liger_operators.py FOLDER rms_norm 0

FOLDER holds a version of the package, see `lock_history.py`. Arguments are given by name; what a
version's function does not know of them is left out. Autotuned kernels have one configuration, the
middle one of their list, so that the times of a version are those of one kernel.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.tensor  # some versions use it without importing it
import triton

Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An `autograd.Function` of the library, and what it is given.

    Attributes:
        function: its name.
        cases: make its arguments, on a device.
        differentiated: names of the arguments of which gradients are asked.
    """

    function: str
    cases: tuple[Callable[[str], Values], ...]
    differentiated: tuple[str, ...]


def _random(device: str, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device=device, dtype=dtype)


def _log_softmax(device: str, rows: int, columns: int) -> torch.Tensor:
    return _random(device, rows, columns, dtype=torch.float32).log_softmax(-1)


def _norm(rows: int, columns: int, dtype: torch.dtype, **more: Any) -> Callable[[str], Values]:
    def make(device: str) -> Values:
        shape = (rows, columns)
        return {
            "X": _random(device, *shape, dtype=dtype),
            "R": _random(device, *shape, dtype=dtype),
            "W": _random(device, columns, dtype=dtype),
            "B": _random(device, columns, dtype=dtype),
            "eps": 1e-6,
            **more,
        }

    return make


def _pair(rows: int, columns: int, dtype: torch.dtype) -> Callable[[str], Values]:
    return lambda device: {
        "a": _random(device, rows, columns, dtype=dtype),
        "b": _random(device, rows, columns, dtype=dtype),
    }


def _divergence(rows: int, columns: int, logs: bool, **more: Any) -> Callable[[str], Values]:
    def make(device: str) -> Values:
        first, second = (_log_softmax(device, rows, columns) for _ in range(2))
        if not logs:
            second = second.exp()
        names = ("_input", "target"), ("y_pred", "y_true")
        return {
            key: value for pair in names for key, value in zip(pair, (first, second), strict=True)
        } | more

    return make


def _distance(rows: int, columns: int) -> Callable[[str], Values]:
    def make(device: str) -> Values:
        return {name: _log_softmax(device, rows, columns).exp() for name in ("p", "q")}

    return make


def _labels(rows: int, columns: int, dtype: torch.dtype, **more: Any) -> Callable[[str], Values]:
    return lambda device: {
        "_input": _random(device, rows, columns, dtype=dtype),
        "target": torch.arange(rows, device=device) * 7919 % columns,
        "weight": None,
        "ignore_index": -100,
        **more,
    }


def _groups(batch: int, channels: int, hidden: int, groups: int) -> Callable[[str], Values]:
    return lambda device: {
        "X": _random(device, batch, channels, hidden, dtype=torch.float32),
        "affine_scaling_weight": _random(device, channels, dtype=torch.float32),
        "affine_shifting_bias": _random(device, channels, dtype=torch.float32),
        "num_channels": channels,
        "num_groups": groups,
        "eps": 1e-6,
    }


def _policy(batch: int, length: int, words: int, dtype: torch.dtype) -> Callable[[str], Values]:
    def make(device: str) -> Values:
        tokens = torch.arange(batch * length, device=device).view(batch, length)
        return {
            "logits": _random(device, batch, length + 1, words, dtype=dtype),
            "old_logp": None,
            "ref_logp": -_random(device, batch, length, dtype=torch.float32).abs(),
            "completion_ids": tokens * 7919 % words,
            "advantages": _random(device, batch, dtype=torch.float32),
            "completion_mask": torch.ones(batch, length, device=device, dtype=torch.int32),
            "temperature": 0.9,
            "beta": 0.04,
            "eps_low": 0.2,
            "eps_high": 0.4,
            "inplace": True,
            "reduce": False,
        }

    return make


def _heads(batch: int, q: int, k: int, length: int, width: int, planes: int) -> Any:
    def make(device: str) -> Values:
        table = (planes, batch) if planes else (1,)
        return {
            "q": _random(device, batch, length, q, width).transpose(1, 2),
            "k": _random(device, batch, length, k, width).transpose(1, 2),
            "cos": _random(device, *table, length, width),
            "sin": _random(device, *table, length, width),
            "mrope_section": [width // 8, width * 3 // 16, width * 3 // 16],
        }

    return make


def _complex_heads(batch: int, q: int, k: int, length: int, width: int) -> Any:
    def make(device: str) -> Values:
        angles = _random(device, length, width // 2, dtype=torch.float32)
        return {
            "q": _random(device, batch, length, q, width),
            "k": _random(device, batch, length, k, width),
            "freqs_cis": torch.polar(torch.ones_like(angles), angles),
        }

    return make


def _tanh(rows: int, columns: int, dtype: torch.dtype) -> Callable[[str], Values]:
    return lambda device: {
        "x": _random(device, rows, columns, dtype=dtype),
        "alpha": _random(device, 1, dtype=dtype),
        "gamma": _random(device, columns, dtype=dtype),
        "beta": _random(device, columns, dtype=dtype),
    }


def _sparse(rows: int, columns: int) -> Callable[[str], Values]:
    return lambda device: {"x": _random(device, rows, columns, dtype=torch.float32), "dim": -1}


def _residuals(layers: int, rows: int, columns: int) -> Callable[[str], Values]:
    return lambda device: {
        "V_stacked": _random(device, layers, rows, columns),
        "w_query": _random(device, columns),
        "w_norm": _random(device, columns),
        "eps": 1e-6,
    }


def _modulated(batch: int, length: int, columns: int) -> Callable[[str], Values]:
    return lambda device: {
        "X": _random(device, batch, length, columns),
        "W": _random(device, columns),
        "scale": _random(device, batch, columns),
        "shift": _random(device, batch, columns),
        "eps": 1e-6,
    }


_HALF, _FULL = torch.bfloat16, torch.float32
OPERATORS = {
    "attn_res": Operator(
        function="LigerAttnResFunction",
        cases=(_residuals(8, 4096, 2048), _residuals(4, 2048, 4096)),
        differentiated=("V_stacked", "w_query", "w_norm"),
    ),
    "cross_entropy": Operator(
        function="LigerCrossEntropyFunction",
        cases=(_labels(2048, 32000, _HALF), _labels(1024, 50257, _FULL, label_smoothing=0.1)),
        differentiated=("_input",),
    ),
    "dyt": Operator(
        function="LigerDyTFunction",
        cases=(_tanh(8192, 4096, _HALF), _tanh(4096, 1024, _FULL)),
        differentiated=("x", "alpha", "gamma", "beta"),
    ),
    "fused_add_rms_norm": Operator(
        function="LigerFusedAddRMSNormFunction",
        cases=(_norm(8192, 4096, _HALF), _norm(16384, 1024, _FULL, casting_mode="gemma")),
        differentiated=("X", "R", "W"),
    ),
    "geglu": Operator(
        function="LigerGELUMulFunction",
        cases=(_pair(4096, 11008, _HALF), _pair(8192, 4096, _FULL)),
        differentiated=("a", "b"),
    ),
    "group_norm": Operator(
        function="LigerGroupNormFunction",
        cases=(_groups(32, 128, 2048, 32), _groups(16, 64, 4096, 4)),
        differentiated=("X", "affine_scaling_weight", "affine_shifting_bias"),
    ),
    "grpo_loss": Operator(
        function="GrpoLossFunction",
        cases=(_policy(2, 512, 32000, _HALF), _policy(4, 256, 16000, _FULL)),
        differentiated=("logits",),
    ),
    "jsd": Operator(
        function="LigerJSDFunction",
        cases=(
            _divergence(1024, 32000, True),
            _divergence(4096, 8192, True, beta=0.1),
            _divergence(4096, 8192, True, beta=0.0),
        ),
        differentiated=("_input",),
    ),
    "kl_div": Operator(
        function="LigerKLDivLossFunction",
        cases=(_divergence(1024, 32000, False), _divergence(4096, 8192, True, log_target=True)),
        differentiated=("y_pred",),
    ),
    "layer_norm": Operator(
        function="LigerLayerNormFunction",
        cases=(_norm(8192, 4096, _HALF), _norm(16384, 1024, _FULL)),
        differentiated=("X", "W", "B"),
    ),
    "llama4_rope": Operator(
        function="LigerLlama4RopeFunction",
        cases=(_complex_heads(2, 32, 8, 2048, 128), _complex_heads(1, 40, 8, 4096, 64)),
        differentiated=("q", "k"),
    ),
    "modulated_rms_norm": Operator(
        function="LigerModulatedRMSNormFunction",
        cases=(_modulated(4, 2048, 4096), _modulated(8, 2048, 1024)),
        differentiated=("X", "W", "scale", "shift"),
    ),
    "qwen2vl_mrope": Operator(
        function="LigerQwen2VLMRopeFunction",
        cases=(_heads(1, 32, 8, 4096, 128, 3), _heads(2, 16, 4, 2048, 64, 3)),
        differentiated=("q", "k"),
    ),
    "rms_norm": Operator(
        function="LigerRMSNormFunction",
        cases=(
            _norm(8192, 4096, _HALF),
            _norm(16384, 1024, _FULL, offset=1.0, casting_mode="gemma"),
            _norm(131072, 128, _HALF),
        ),
        differentiated=("X", "W"),
    ),
    "rope": Operator(
        function="LigerRopeFunction",
        cases=(_heads(2, 32, 8, 2048, 128, 0), _heads(1, 32, 4, 4096, 64, 0)),
        differentiated=("q", "k"),
    ),
    "sparsemax": Operator(
        function="LigerSparsemaxFunction",
        cases=(_sparse(8192, 2048), _sparse(4096, 8192)),
        differentiated=("x",),
    ),
    "swiglu": Operator(
        function="LigerSiLUMulFunction",
        cases=(_pair(4096, 11008, _HALF), _pair(8192, 4096, _FULL)),
        differentiated=("a", "b"),
    ),
    "tvd": Operator(
        function="LigerTVDLossFunction",
        cases=(_distance(1024, 32000), _distance(4096, 8192)),
        differentiated=("p",),
    ),
}


def _load(folder: Path, name: str) -> Any:
    """A module of the version in a folder, whatever versions were loaded before."""
    package = name.partition(".")[0]
    for module in [each for each in sys.modules if each.partition(".")[0] == package]:
        del sys.modules[module]
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def tune_nothing() -> None:
    """Has autotuned kernels take the middle one of their configurations."""
    tuner = triton.runtime.Autotuner
    plain = tuner.__init__

    def one(self: Any, fn: Any, names: Any, configs: Any, *rest: Any, **more: Any) -> None:
        plain(self, fn, names, configs[len(configs) // 2 :][:1], *rest, **more)

    tuner.__init__ = one


def operation(folder: Path, name: str, case: int, device: str) -> Callable[[], None]:
    """Runs an operator of the version in a folder, forward and backward."""
    operator = OPERATORS[name]
    function = getattr(_load(folder, f"liger_kernel.ops.{name}"), operator.function)
    torch.manual_seed(0)
    values = dict(operator.cases[case](device))
    for each in operator.differentiated:
        values[each].requires_grad_()
    parameters = list(inspect.signature(function.forward).parameters.items())[1:]
    last = max(n for n, (each, _) in enumerate(parameters) if each in values) + 1
    arguments = [values.get(each, known.default) for each, known in parameters[:last]]
    gradients: list[torch.Tensor] = []

    def run() -> None:
        found = function.apply(*arguments)
        found = found if isinstance(found, tuple) else (found,)
        outputs = [each for each in found if each is not None and each.requires_grad]
        if not gradients:
            gradients.extend(torch.ones_like(each) for each in outputs)
        torch.autograd.backward(outputs, gradients)
        for each in operator.differentiated:
            values[each].grad = None

    return run


if __name__ == "__main__":
    tune_nothing()
    operation(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), "cuda")()
