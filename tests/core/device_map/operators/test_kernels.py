"""Tests of operators on tensors of a mapped device, compared with the CPU, and of their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch.nn import functional

from ttools.core.errors import UnsupportedError

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU"),
    pytest.mark.usefixtures("mapped"),
    pytest.mark.filterwarnings("ignore:.*(Sparse|sparse|nested):UserWarning"),
]


def rand(*shape: int, device: Any = "cpu") -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.rand(shape, generator=generator).to(device).requires_grad_()


Call = Callable[[Any], Any]
#: Functions of a random tensor, whose results and gradients on both devices are compared.
CALLS: dict[str, Call] = {
    "elementwise": lambda x: (x * 2 + 1).exp().clamp(max=8) / (x + 3),
    "reductions": lambda x: (x.sum(0), x.mean(), x.amax(1), x.std(), x.norm(), x.logsumexp(0)),
    "scans": lambda x: (x.cumsum(0), x.cumprod(1), x.cummax(0)[0]),
    "products": lambda x: (x @ x.T, torch.einsum("ij,kj->ik", x, x), torch.outer(x[0], x[1])),
    "views": lambda x: (
        x.view(-1)[1:].sin(),
        x.T.contiguous(),
        x.unfold(1, 2, 1),
        x.expand(2, 4, 6),
    ),
    "indexing": lambda x: (x[[0, 2]], x[x > 0.5], x.gather(1, (x > 0.5).long()), x[:, ::2]),
    "assignments": lambda x: x.clone().index_fill_(0, torch.tensor([1], device=x.device), 2.0),
    "in place": lambda x: x.clone().mul_(2).add_(1).unsqueeze_(0).squeeze_().t_(),
    "joins": lambda x: (torch.cat((x, x * 2)), torch.stack((x, x)), torch.where(x > 0.5, x, 0.0)),
    "sorts": lambda x: (x.sort(1)[0], x.topk(2)[0], x.median(), x.kthvalue(2)[0]),
    "complex": lambda x: torch.fft.rfft(x).conj().imag.neg() + torch.fft.fft(x).abs()[:, :4],
    "linear algebra": lambda x: (torch.linalg.svdvals(x), torch.linalg.det(x[:, :4])),
    "norms": lambda x: (functional.layer_norm(x, (6,)), functional.rms_norm(x, (6,))),
    "group norm": lambda x: functional.group_norm(x.view(2, 4, 3), 2),
    "batch norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "softmax": lambda x: (x.softmax(1), x.log_softmax(0), functional.gelu(x), functional.silu(x)),
    "losses": lambda x: (
        functional.cross_entropy(x, torch.arange(4, device=x.device)),
        functional.mse_loss(x, x * 2),
        functional.smooth_l1_loss(x, x.detach() + 1),
    ),
    "convolutions": lambda x: (
        functional.conv1d(x.view(1, 4, 6), x.view(4, 2, 3), groups=2),
        functional.conv1d(x.view(1, 4, 6), x.detach().view(-1)[:12].view(4, 1, 3), groups=4),
        functional.max_pool1d(x, 2),
        functional.interpolate(x.view(1, 4, 6), scale_factor=2, mode="linear"),
    ),
    "attention": lambda x: functional.scaled_dot_product_attention(
        x.view(1, 2, 2, 6), x.view(1, 2, 2, 6), x.view(1, 2, 2, 6), is_causal=True
    ),
    "embedding": lambda x: functional.embedding(torch.tensor([1, 2, 1], device=x.device), x),
    "foreach": lambda x: torch._foreach_mul([x, x * 2], 3.0),
    "second results": lambda x: torch.linalg.eigh(x @ x.T)[0],
}


def leaves(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    else:
        for element in value:
            yield from leaves(element)


def computed(call: Call, device: str) -> list[torch.Tensor]:
    x = rand(4, 6, device=device).detach().requires_grad_()
    results = list(leaves(call(x)))
    total = torch.zeros((), device=device)
    for result in results:
        weights = torch.arange(1, 1 + result.numel(), device=device).view(result.shape)
        total = total + (result.abs() * weights).sum()
    total.backward()
    assert x.grad is not None
    assert all(tensor.device.type == device for tensor in (*results, x.grad))
    return [tensor.detach().cpu() for tensor in (*results, x.grad)]


@pytest.mark.parametrize("call", CALLS)
def test_results_and_gradients_agree_with_the_cpu(call: str) -> None:
    torch.testing.assert_close(computed(CALLS[call], "cuda"), computed(CALLS[call], "cpu"))


@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_networks(cell: Any, bias: bool) -> None:
    torch.manual_seed(0)
    network = cell(3, 5, num_layers=2, bias=bias, bidirectional=True)
    other = cell(3, 5, num_layers=2, bias=bias, bidirectional=True).cuda()
    other.load_state_dict(network.state_dict())
    x = torch.rand(4, 2, 3)
    for net, device in ((network, "cpu"), (other, "cuda")):
        (net(x.to(device))[0] * torch.arange(10.0, device=device)).sum().backward()
    for actual, expected in zip(other.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(actual.grad.cpu(), expected.grad)


def test_packed_sequences_have_their_sizes_on_the_cpu() -> None:
    pack = torch.nn.utils.rnn.pack_padded_sequence
    packed = pack(torch.rand(3, 2, 4, device="cuda"), torch.tensor([3, 2]))
    assert packed.data.is_cuda
    assert packed.batch_sizes.is_cpu
    output, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed)
    assert output.is_cuda
    assert lengths.tolist() == [3, 2]


def test_half_precision_softmax_in_f32() -> None:
    x = torch.rand(3, 4, device="cuda", dtype=torch.float16, requires_grad=True)
    wide = functional.softmax(x, 1, dtype=torch.float32)
    assert wide.dtype is torch.float32
    (wide * torch.arange(4, device="cuda")).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is torch.float16
    with torch.autocast("cuda"):
        assert x.log_softmax(1).dtype is torch.float32


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: x @ y,
        lambda x, y: torch.cat((x, y)),
        lambda x, y: x.add_(y),
        lambda x, y: y[x.long()],
        lambda x, y: torch.equal(x, y),
        lambda x, y: torch.add(x, 1, out=y),
        lambda x, y: functional.linear(x, y),
        lambda x, y: torch.ones(2).add_(x.sum()),
    ],
)
def test_tensors_of_both_devices_are_rejected_as_on_a_gpu(mixed: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match=r"same device.*cuda:0 and cpu"):
        mixed(torch.zeros(2, 2, device="cuda"), torch.zeros(2, 2))


def test_cpu_tensors_that_gpus_accept() -> None:
    x = torch.arange(4.0, device="cuda")
    assert (x + torch.tensor(1.0))[3] == 4
    assert x[torch.tensor([1, 2])].tolist() == [1, 2]
    x[1:3] = torch.tensor([5.0, 6.0])
    x[torch.tensor([0])] = 7.0
    assert x.copy_(x.cpu() + 1).tolist() == [8, 6, 7, 4]


def test_out_arguments_are_resized() -> None:
    x = torch.arange(6.0, device="cuda").view(2, 3)
    empty, wrong, part = (torch.empty(0, device="cuda"), torch.empty(2, device="cuda"), x.clone())
    assert torch.add(x, 1, out=empty) is empty
    assert torch.mul(x, 2, out=wrong) is wrong
    torch.add(x, 5, out=part[:, :3])
    assert (empty.tolist(), wrong.tolist()) == ((x + 1).tolist(), (x * 2).tolist())
    assert torch.equal(part, x + 5)
    values, indices = torch.empty(0, device="cuda"), torch.empty(0, device="cuda", dtype=torch.long)
    result = torch.max(x, 1, out=(values, indices))
    assert result[0] is values
    assert indices.tolist() == [2, 2]


def test_resizing_keeps_elements() -> None:
    x = torch.arange(3.0, device="cuda")
    x.resize_(2, 3)
    assert x.shape == (2, 3)
    assert x[0].tolist() == [0, 1, 2]
    assert x.resize_(2).tolist() == [0, 1]


def test_every_type_of_element() -> None:
    types = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    count = 0
    for dtype in types:
        try:
            host = torch.empty(4, dtype=dtype)
        except (RuntimeError, NotImplementedError):
            continue
        try:
            device = host.cuda()
        except (UnsupportedError, RuntimeError):  # quantised types, and types that cannot be copied
            continue
        assert (device.dtype, device.cpu().dtype) == (dtype, dtype)
        count += 1
    assert count >= 21


def test_strides_of_axes_of_one_element_are_kept() -> None:
    x = torch.empty_strided((1, 4, 1), (100, 1, 7))
    assert torch.empty_like(x, device="cuda").stride() == torch.empty_like(x).stride()
    strided = torch.empty_strided((1, 4, 1), (100, 1, 7), device="cuda")
    assert strided.stride() == (100, 1, 7)


# ---- sparse and nested tensors

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "bsc": lambda x: x.to_sparse_bsc((2, 2)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_tensors(layout: str) -> None:
    dense = torch.eye(4) + torch.ones(4, 4).triu(3)
    x = LAYOUTS[layout](dense.cuda())
    narrow = LAYOUTS[layout](dense.cuda().bfloat16())
    assert narrow.dtype == narrow.to_dense().dtype == torch.bfloat16
    assert x.is_cuda
    assert x.layout is LAYOUTS[layout](dense).layout
    assert x.values().is_cuda if layout != "coo" else x.coalesce().indices().is_cuda
    assert torch.equal(x.to_dense().cpu(), dense)
    assert torch.equal(x.cpu().to_dense(), dense)
    assert torch.equal(x.cpu().cuda().to_dense().cpu(), dense)
    assert torch.equal((x * 2).to_dense().cpu(), dense * 2)


def test_coordinates_change_in_place() -> None:
    x = torch.eye(3, device="cuda").to_sparse()
    x.add_(torch.ones(3, 3, device="cuda").to_sparse())
    assert torch.equal(x.to_dense().cpu(), torch.eye(3) + 1)
    assert x.zero_()._nnz() == 0


def test_gradients_of_sparse_products_and_embeddings() -> None:
    dense = torch.ones(3, 2, device="cuda", requires_grad=True)
    sparse = torch.eye(3, device="cuda").to_sparse().requires_grad_()
    torch.sparse.mm(sparse, dense).sum().backward()
    assert dense.grad is not None
    assert dense.grad.tolist() == [[1, 1]] * 3
    table = torch.nn.Embedding(4, 3, sparse=True, device="cuda")
    before = table.weight.detach().clone()
    optimizer = torch.optim.SparseAdam(table.parameters())
    table(torch.tensor([1, 2], device="cuda")).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.is_sparse
    optimizer.step()
    assert (table.weight != before).any(1).tolist() == [False, True, True, False]


def test_unsupported_operations_are_errors() -> None:
    x = torch.ones(4, 4, device="cuda")
    with pytest.raises(UnsupportedError, match=r"torch\.qint8 tensors on a mapped device"):
        torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    parts = [torch.ones(2), torch.ones(3)]
    nested = torch.nested.nested_tensor(parts, device="cuda")
    if torch.version.cuda is None:
        with pytest.raises(UnsupportedError, match="nested tensors on a mapped device"):
            nested.unbind()
    assert torch.nested.nested_tensor(parts, device="cuda", layout=torch.jagged).is_cuda
    image, arguments = x.view(1, 1, 4, 4), ([3, 3], None, [1, 1], [0, 0], [1, 1])
    with pytest.raises(UnsupportedError, match="_conv_depthwise2d on a mapped device"):
        torch.ops.aten._conv_depthwise2d(image, image[..., :3, :3], *arguments)
    with pytest.raises(RuntimeError, match="invalid device ordinal 1"):
        torch.ones(2, device="cuda:1")


def test_composite_kernels_compute_on_the_cpu() -> None:
    no_backend = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)
    x, y = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
    assert torch.ops.aten.copy_.default.redispatch(no_backend, y, x, False) is y
    assert y.tolist() == [1, 1, 1]
    assert torch.ops.aten.copy_.default.redispatch(no_backend, y, torch.zeros(3)).is_cuda
    assert y.tolist() == [0, 0, 0]
    copied = torch.ops.aten._to_copy.default.redispatch(no_backend, x, device=torch.device("cpu"))
    assert copied.is_cpu
    assert torch.ops.aten.detach.default.redispatch(no_backend, x).is_cuda


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("axes", [1, 2])
def test_gradients_of_the_fused_rms_norm(weighted: bool, axes: int) -> None:
    x = rand(3, 4, 6)
    shape = x.shape[-axes:]
    weight = rand(*shape) if weighted else None
    output, inverse = torch.ops.aten._fused_rms_norm(x, shape, weight, None)
    grad = rand(3, 4, 6).detach().flip(2)
    expected = torch.autograd.grad(output, [x, weight] if weight is not None else [x], grad)
    with torch.no_grad():
        operands = [None if t is None else t.cuda() for t in (grad, x, inverse, weight)]
        to_x, to_weight = torch.ops.aten._fused_rms_norm_backward(
            *operands[:2], shape, *operands[2:], [True, weighted]
        )
    assert to_x.is_cuda
    torch.testing.assert_close(to_x.cpu(), expected[0])
    assert (to_weight is None) is (weight is None)
    if weighted:
        torch.testing.assert_close(to_weight.cpu(), expected[1])


def test_conjugates_in_operators_of_libraries() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j], device="cuda")
    conjugate, imaginary = x.conj(), x.conj().imag
    assert conjugate.is_conj()
    assert imaginary.is_neg()

    def called(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("for scripts to call")

    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("_conj", called, "CUDA")
        library.impl("_neg_view", called, "CUDA")
        assert (conjugate + 0).cpu().tolist() == [1 - 2j, 3 + 1j]
        assert (imaginary + 0).cpu().tolist() == [-2, 1]


@pytest.mark.parametrize("backend", torch.nn.attention.SDPBackend.__members__.values())
def test_every_attention_backend_can_be_selected(backend: Any) -> None:
    x = rand(1, 2, 4, 8)
    expected = functional.scaled_dot_product_attention(x, x, x)
    y = x.cuda()
    with torch.nn.attention.sdpa_kernel(backend):
        torch.testing.assert_close(functional.scaled_dot_product_attention(y, y, y).cpu(), expected)


def test_errors_of_operators_and_backward_passes() -> None:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise ValueError("mine")

    x = torch.ones(3, device="cuda", requires_grad=True)
    with pytest.raises(ValueError, match="mine"):
        Fails.apply(x).sum().backward()
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        x[5]
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        x.detach().numpy()


def test_subclasses_and_modes_see_a_call_once() -> None:
    calls: list[str] = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.ones(2, device="cuda").as_subclass(Logged)
    calls.clear()
    assert type(torch.sin(x)) is Logged
    assert calls == ["sin"]
    with torch.device("cuda"):
        assert torch.add(torch.ones(2), 1, out=torch.empty(0)).is_cuda
