"""Unmodified Liger-Kernel from PyPI on CPU tensors: results and gradients agree with torch.

Every case runs in float32 and in bfloat16. The reference is computed by torch from float32 copies
of the inputs; the tolerances are a few rounding errors of the type that the operator stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import PYTHON

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")
pytest.importorskip("liger_kernel", reason="liger-kernel is not installed")

import liger_references as references
import torch
from torch import Tensor

pytestmark = pytest.mark.slow

Inputs = Callable[[torch.dtype], Sequence[Any]]

#: Relative and absolute tolerance, by type.
TOLERANCES = {torch.float32: (2e-5, 2e-5), torch.bfloat16: (2e-2, 2e-2)}


@dataclass(frozen=True)
class Case:
    """An operator of `liger_kernel.transformers.functional` with inputs and a reference.

    Attributes:
        name: Name of the test.
        call: Calls the operator of the module that is its first argument, on the inputs.
        inputs: Creates the inputs of a type; gradients of those that require them are compared.
        reference: Computes the expected results in torch.
    """

    name: str
    call: Callable[..., Any]
    inputs: Inputs
    reference: Callable[..., Any]

    def __str__(self) -> str:
        return self.name


def leaf(*shape: int, dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape) * scale).to(dtype).requires_grad_()


def leaves(*shapes: tuple[int, ...]) -> Inputs:
    return lambda dtype: [leaf(*shape, dtype=dtype) for shape in shapes]


def logits(rows: int, classes: int, *, ignored: int = 0, weighted: bool = False) -> Inputs:
    """Create logits; targets, some of which are -100; and optionally weights of the classes."""

    def make(dtype: torch.dtype) -> Sequence[Any]:
        target = torch.randint(classes, (rows,))
        target[:ignored] = -100
        weights = [torch.rand(classes) + 0.5] if weighted else []
        return [leaf(rows, classes, dtype=dtype, scale=3.0), target, *weights]

    return make


def linear_logits(rows: int, width: int, classes: int) -> Inputs:
    def make(dtype: torch.dtype) -> Sequence[Any]:
        return [
            leaf(rows, width, dtype=dtype),
            leaf(classes, width, dtype=dtype, scale=width**-0.5),
            leaf(classes, dtype=dtype),
            torch.randint(classes, (rows,)),
        ]

    return make


def distributions(rows: int, classes: int, *, log_target: bool = True) -> Inputs:
    """Create log-probabilities with gradients, and targets (or their logarithms) without them."""

    def make(dtype: torch.dtype) -> Sequence[Any]:
        x = torch.log_softmax(torch.randn(rows, classes), dim=-1).to(dtype).requires_grad_()
        y = torch.softmax(torch.randn(rows, classes), dim=-1)
        return [x, (y.log() if log_target else y).to(dtype)]

    return make


def rotations(batch: int, heads: tuple[int, int], positions: int, width: int) -> Inputs:
    def make(dtype: torch.dtype) -> Sequence[Any]:
        frequencies = 1.0 / 10000 ** (torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(positions).float(), frequencies)
        angles = torch.cat((angles, angles), dim=-1)[None]
        q, k = (leaf(batch, count, positions, width, dtype=dtype) for count in heads)
        return [q, k, angles.cos().to(dtype), angles.sin().to(dtype)]

    return make


CASES = [
    Case(
        "rms_norm",
        lambda f, x, w: f.liger_rms_norm(x, w, 1e-6),
        leaves((3, 5, 100), (100,)),
        references.rms_norm(),
    ),
    Case(
        "rms_norm[gemma]",
        lambda f, x, w: f.liger_rms_norm(x, w, 1e-6, 1.0, "gemma", False),
        leaves((7, 512), (512,)),
        references.rms_norm(1.0),
    ),
    Case(
        "rms_norm[no weight]",
        lambda f, x: f.liger_rms_norm(x, None, 1e-6, 0.0, "none"),
        leaves((9, 64)),
        references.rms_norm(),
    ),
    Case(
        "rms_norm[many rows]",
        lambda f, x, w: f.liger_rms_norm(x, w, 1e-6, 0.0, "gemma"),
        leaves((33_000, 20), (20,)),
        references.rms_norm(),
    ),
    Case(
        "layer_norm",
        lambda f, x, w, b: f.liger_layer_norm(x, w, b, 1e-6),
        leaves((2, 5, 300), (300,), (300,)),
        references.layer_norm,
    ),
    Case(
        "group_norm",
        lambda f, x, w, b: f.liger_group_norm(x, w, b, 6, 3, 1e-6),
        leaves((2, 6, 40), (6,), (6,)),
        references.group_norm(3),
    ),
    Case("swiglu", lambda f, *x: f.liger_swiglu(*x), leaves((6, 300), (6, 300)), references.swiglu),
    Case("geglu", lambda f, *x: f.liger_geglu(*x), leaves((6, 300), (6, 300)), references.geglu),
    Case(
        "rope",
        lambda f, *x: f.liger_rope(*x),
        rotations(2, (4, 2), 9, 64),
        references.rope,
    ),
    Case(
        "cross_entropy",
        lambda f, *x: f.liger_cross_entropy(*x),
        logits(12, 1000, ignored=3),
        references.cross_entropy(),
    ),
    Case(
        "cross_entropy[weight, smoothing, sum]",
        lambda f, *x: f.liger_cross_entropy(*x, label_smoothing=0.1, reduction="sum"),
        logits(5, 500, weighted=True),
        references.cross_entropy(label_smoothing=0.1, reduction="sum"),
    ),
    Case(
        "cross_entropy[softcap, z-loss]",
        lambda f, *x: f.liger_cross_entropy(*x, softcap=5.0, lse_square_scale=1e-3),
        logits(5, 500, ignored=1),
        references.cross_entropy(softcap=5.0, z_scale=1e-3),
    ),
    Case(
        "cross_entropy[40,000 classes]",
        lambda f, *x: f.liger_cross_entropy(*x),
        logits(4, 40_000),
        references.cross_entropy(),
    ),
    Case(
        "fused_linear_cross_entropy",
        lambda f, x, w, b, y: f.liger_fused_linear_cross_entropy(x, w, y, b),
        linear_logits(24, 32, 200),
        references.linear_cross_entropy,
    ),
    Case(
        "kl_div",
        lambda f, *x: f.liger_kl_div(*x, reduction="batchmean"),
        distributions(8, 300, log_target=False),
        references.kl_divergence(log_target=False, reduction="batchmean"),
    ),
    Case(
        "kl_div[log target, sum]",
        lambda f, *x: f.liger_kl_div(*x, reduction="sum", log_target=True),
        distributions(8, 300),
        references.kl_divergence(log_target=True, reduction="sum"),
    ),
    *(
        Case(
            f"jsd[beta {beta}]",
            lambda f, x, y, beta=beta: f.liger_jsd(x, y, beta=beta),
            distributions(8, 300),
            references.jensen_shannon(beta),
        )
        for beta in (0.0, 0.3, 1.0)
    ),
    Case("softmax", lambda f, x: f.liger_softmax(x), leaves((2, 6, 300)), references.softmax),
    Case("sparsemax", lambda f, x: f.liger_sparsemax(x), leaves((6, 300)), references.sparsemax),
]

#: These operators query torch.cuda for the device's properties; the last one needs an answer.
MAPPED = [
    *(case for case in CASES if "norm" in case.name or "linear" in case.name),
    Case(
        "dyt",
        lambda f, *x: f.liger_dyt(*x),
        leaves((6, 300), (1,), (300,), (300,)),
        references.dynamic_tanh,
    ),
]


def tensors(value: Any) -> list[Tensor]:
    return list(value) if isinstance(value, tuple) else [value]


def run(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    """Return outputs and gradients of inputs, for gradients of the outputs drawn from a seed."""
    outputs = tensors(function(*inputs))
    # Cloned before the backward pass, which in Liger may overwrite results of the forward pass.
    results = [output.detach().clone() for output in outputs]
    generator = torch.Generator().manual_seed(7)
    directions = [torch.randn(x.shape, generator=generator).to(x.dtype) for x in outputs]
    torch.autograd.backward(outputs, directions)
    return results + [x.grad for x in inputs if x.requires_grad]


def check(ours: list[Tensor], theirs: list[Tensor], dtype: torch.dtype) -> None:
    relative, absolute = TOLERANCES[dtype]
    assert len(ours) == len(theirs)
    for actual, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(actual.float(), expected, rtol=relative, atol=absolute)


def in_float32(inputs: Sequence[Any]) -> list[Any]:
    """Copy the inputs, since some operators of Liger overwrite them with gradients."""
    return [
        x.detach().clone().float().requires_grad_(x.requires_grad)
        if x.is_floating_point()
        else x.clone()
        for x in inputs
    ]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=["f32", "bf16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator(case: Case, dtype: torch.dtype, native: None) -> None:
    functional = pytest.importorskip("liger_kernel.transformers.functional")
    torch.manual_seed(0)
    inputs = case.inputs(dtype)
    theirs = run(case.reference, in_float32(inputs))
    ours = run(lambda *values: case.call(functional, *values), inputs)
    check(ours, theirs, dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=["f32", "bf16"])
@pytest.mark.parametrize("case", MAPPED, ids=str)
def test_operator_on_a_mapped_device(case: Case, dtype: torch.dtype, native: None) -> None:
    """Run as a script for CUDA does: Liger sizes grids by the number of multiprocessors."""
    from ttools.core.device_map.mapping import map_devices

    functional = pytest.importorskip("liger_kernel.transformers.functional")
    torch.manual_seed(0)
    inputs = case.inputs(dtype)
    theirs = run(case.reference, in_float32(inputs))
    with map_devices({"cuda": "cpu"}):
        assert torch.empty(1, device="cuda").is_cuda
        ours = run(lambda *values: case.call(functional, *values), inputs)
    check(ours, theirs, dtype)


SCRIPT = """
import torch
from liger_kernel.transformers import LigerCrossEntropyLoss, LigerRMSNorm
from liger_kernel.utils import infer_device

torch.manual_seed(0)
device = infer_device()
norm = LigerRMSNorm(64).to(device)
head = torch.nn.Linear(64, 300, device=device)
x = torch.randn(32, 64, device=device)
target = torch.randint(300, (32,), device=device)
optimizer = torch.optim.SGD([*norm.parameters(), *head.parameters()], lr=1.0)
losses = []
for _ in range(5):
    optimizer.zero_grad()
    loss = LigerCrossEntropyLoss()(head(norm(x)), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses == sorted(losses, reverse=True), losses
print("trained on", device)
"""


def test_training_script_under_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ["-m", "ttools_entry", "interpret", "--device-map", "cuda=cpu", "train.py"]
    result = PYTHON.run(words, cwd=tmp_path, timeout=200)
    assert result.returncode == 0, result.stderr
    assert "trained on cuda" in result.stdout
