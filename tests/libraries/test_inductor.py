"""Kernels that TorchInductor generates run natively and agree with eager mode.

Inductor generates Triton kernels for tensors of the device map, as for a GPU, and for CPU tensors
with `cpu_backend = "triton"`. Matrix products and convolutions remain calls of torch's libraries,
unless Inductor is configured to generate them, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

import torch
import triton
from torch import Tensor, nn
from torch.nn import functional

from ttools.core import triton_versions
from ttools.core.device_map.mapping import map_devices
from ttools.interpreter import interpret

pytestmark = pytest.mark.slow


@pytest.fixture(params=["cuda", "cpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Return the device of tensors; without a GPU, CUDA devices are those of the device map."""
    return str(request.param)


@pytest.fixture
def launched(device: str) -> Iterator[set[str]]:
    """Compile for a device without caches, and provide the names of launched kernels.

    The names come from Triton's own hook, which every engine calls, including the sanitizer under
    `--ttools-sanitize`.
    """
    config: Any = pytest.importorskip("torch._inductor.config")
    if device == "cpu" and not hasattr(config, "cpu_backend"):
        pytest.skip("this torch cannot choose the backend of the CPU")
    torch._dynamo.reset()
    # Worker processes would import torch again for each test.
    options: dict[str, Any] = {"force_disable_caches": True, "compile_threads": 1}
    if device == "cpu":
        options["cpu_backend"] = "triton"
    triton_versions.active_driver()  # before a GPU seems to be present
    mapped = device == "cuda" and not torch.cuda.is_available()
    names: set[str] = set()

    def note(metadata: Any) -> None:
        names.add(metadata.get()["name"])

    hooks = triton.knobs.runtime.launch_enter_hook
    hooks.add(note)
    try:
        with config.patch(options), map_devices({"cuda": "cpu"} if mapped else {}), interpret():
            yield names
    finally:
        hooks.remove(note)


class Attention(nn.Module):
    """Causal attention with several heads, either written out or as one function of torch."""

    def __init__(self, width: int, heads: int, *, written_out: bool) -> None:
        super().__init__()
        self.heads = heads
        self.written_out = written_out
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, positions, width = x.shape
        split = self.project_in(x).view(batch, positions, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        if self.written_out:
            later = torch.ones(positions, positions, dtype=torch.bool, device=x.device).triu(1)
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, positions, width))


class TransformerBlock(nn.Module):
    """An attention and a GELU layer, each with a normalised input and a residual connection."""

    def __init__(self, width: int = 64, heads: int = 4, *, written_out: bool) -> None:
        super().__init__()
        self.attend = nn.Sequential(
            nn.LayerNorm(width), Attention(width, heads, written_out=written_out)
        )
        self.widen = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(x)
        return x + self.widen(x)


def transformer(*, written_out: bool) -> nn.Module:
    return nn.Sequential(*(TransformerBlock(written_out=written_out) for _ in range(2)))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
        nn.LogSoftmax(-1),
    )


def perceptron() -> nn.Module:
    layers = [nn.Linear(30, 50), nn.SiLU(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 7)]
    return nn.Sequential(*layers, nn.Softmax(-1))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "transformer, attention written out": (lambda: transformer(written_out=True), (2, 16, 64)),
    "transformer, fused attention": (lambda: transformer(written_out=False), (2, 16, 64)),
    "convolutions": (convolutions, (4, 3, 16, 16)),
    "perceptron": (perceptron, (9, 30)),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, launched: set[str], device: str) -> None:
    """Compare outputs, gradients of inputs and parameters, and running averages."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    eager = make()
    compiled = copy.deepcopy(eager).to(device)
    eager.to(device)
    x = torch.randn(shape, device=device)
    direction: Tensor | None = None
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [torch.compile(compiled)(inputs[0]), eager(inputs[1])]
    for output in outputs:
        direction = torch.randn_like(output) if direction is None else direction
        output.backward(direction)

    close(outputs[0], outputs[1])
    close(inputs[0].grad, inputs[1].grad)
    for ours, theirs in zip(compiled.parameters(), eager.parameters(), strict=True):
        close(ours.grad, theirs.grad)
    for average, expected in zip(compiled.buffers(), eager.buffers(), strict=True):
        close(average, expected)
    assert len(launched) >= 2


Graph = tuple[Callable[..., Any], Callable[[], Sequence[Tensor]]]


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[], Sequence[Tensor]]:
    return lambda: [torch.randn(shape).to(dtype)]


def integers(*shape: int) -> Callable[[], Sequence[Tensor]]:
    return lambda: [torch.randint(-100, 100, shape)]


def rows_by_index() -> Sequence[Tensor]:
    return [torch.randn(50, 16), torch.randint(0, 50, (4, 9))]


def special_functions(x: Tensor) -> Tensor:
    size = x.abs()
    return (
        torch.erf(x)
        + torch.lgamma(size + 1)
        + torch.atan2(x, x + 1)
        + torch.log1p(size)
        + torch.special.i0(x)
        + torch.pow(size, 1.3)
        + torch.fmod(x, 0.3)
    )


#: One graph for each kind of kernel that Inductor generates, such as reductions, scans and sorts.
GRAPHS: dict[str, Graph] = {
    "special functions": (special_functions, normal(60, 40)),
    "integers": (lambda x: (x // 3 + x % 7).sum(0), integers(60, 40)),
    "booleans": (lambda x: (x > 0).any(-1) & (x < 1).all(-1), normal(60, 4)),
    "transposition": (lambda x: (x.permute(2, 0, 1) + 1).contiguous(), normal(13, 17, 19)),
    "float64": (lambda x: torch.exp(x).mean(), normal(60, 40, dtype=torch.float64)),
    "float16": (lambda x: functional.gelu(x).sum(0), normal(60, 40, dtype=torch.float16)),
    "bfloat16": (lambda x: (x * 1.5).softmax(-1), normal(6, 300, dtype=torch.bfloat16)),
    "NaN": (lambda x: torch.maximum(x, (x * 0).log()).nan_to_num(3.0), normal(40)),
    "Welford": (lambda x: torch.var_mean(x, -1), normal(7, 3000)),
    "two-step sum": (lambda x: x.sum(), normal(1000, 1000)),
    "indices of maxima": (lambda x: (x.argmax(-1), x.amin(0)), normal(5, 300)),
    "cumulative sum": (lambda x: x.cumsum(-1), normal(5, 300)),
    "cumulative logsumexp": (lambda x: x.logcumsumexp(-1), normal(5, 300)),
    "sort": (lambda x: x.sort(-1), normal(5, 32)),
    "embedding": (lambda w, i: functional.embedding(i, w).relu(), rows_by_index),
    "scattered sum": (
        lambda w, i: w.new_zeros(50, 16).index_add(0, i.view(-1), w[:36]),
        rows_by_index,
    ),
    "search": (lambda x: torch.bucketize(x, torch.arange(-3.0, 3, device=x.device)), normal(40)),
    "pooling": (lambda x: functional.max_pool2d(x, 3, 2), normal(2, 3, 17, 17)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name: str, launched: set[str], device: str) -> None:
    function, make = GRAPHS[name]
    torch.manual_seed(0)
    inputs = [tensor.to(device) for tensor in make()]
    ours = torch.compile(function)(*inputs)
    theirs = function(*inputs)
    for actual, expected in zip(tensors(ours), tensors(theirs), strict=True):
        close(actual, expected)
    assert launched


def attention_of_neighbours(
    q: Tensor, k: Tensor, v: Tensor, attend: Callable[..., Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Compute causal FlexAttention, whose scores decrease with distance, and its gradients."""
    flex: Any = pytest.importorskip("torch.nn.attention.flex_attention")
    positions = q.shape[-2]
    mask = flex.create_block_mask(
        lambda batch, head, i, j: i >= j, None, None, positions, positions, device=q.device
    )

    def score(value: Tensor, batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return value + (j - i) * 0.1

    result = attend(q, k, v, score_mod=score, block_mask=mask)
    return result.detach(), torch.autograd.grad(result.square().sum(), (q, k, v))


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_flex_attention(launched: set[str]) -> None:
    """Run attention templates, which Inductor has only for GPUs."""
    flex: Any = pytest.importorskip("torch.nn.attention.flex_attention")
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 200, 16, device="cuda", requires_grad=True) for _ in range(3))
    ours = attention_of_neighbours(q, k, v, torch.compile(flex.flex_attention))
    theirs = attention_of_neighbours(q, k, v, flex.flex_attention)
    # The templates compute f32 products with tf32, as on a GPU.
    torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
    templates = {name for name in launched if name.startswith("triton_tem")}
    assert len(templates) == 2


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("shape", [(64, 64, 64), (50, 70, 30)])
def test_products_by_templates(
    launched: set[str], shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generate products, which Inductor omits on small GPUs such as that of the device map."""
    config: Any = pytest.importorskip("torch._inductor.config")
    for module in ("utils", "template_heuristics.triton", "kernel.mm", "select_algorithm"):
        name = f"torch._inductor.{module}.is_big_gpu"
        monkeypatch.setattr(name, lambda *_: True, raising=False)
    m, k, n = shape
    torch.manual_seed(0)
    x, w = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")

    def function(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu() + 1

    with config.patch(max_autotune=True, max_autotune_gemm_backends="TRITON"):
        close(torch.compile(function)(x, w), function(x, w))
    assert any(name.startswith("triton_tem") for name in launched)


def tensors(value: Any) -> list[Tensor]:
    return list(value) if isinstance(value, tuple) else [value]


def close(actual: Tensor | None, expected: Tensor | None) -> None:
    assert actual is not None
    assert expected is not None
    # Eager mode rounds every step to 16 bits, while a fused kernel rounds once.
    half = expected.dtype in (torch.bfloat16, torch.float16)
    tolerance = 2e-2 if half else 1e-4
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance / 10)
