"""Tracking of allocations does not change results, names or types, and sees all allocations."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from ttools.sanitizer import sanitize
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory

_NAMES = ("empty", "empty_like", "empty_strided", "empty_permuted", "zeros")
_METHODS = ("new_empty", "new_empty_strided", "resize_", "new", "__new__", "contiguous")


def _scratch(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    out = out.fill_(1.0).new_empty(x.shape).fill_(1.0)
    return out + x


def _scripted() -> torch.Tensor:
    return torch.jit.script(_scratch)(torch.ones(3))


def _traced() -> str:
    return str(make_fx(_scratch)(torch.ones(3)).code)


def _mapped() -> torch.Tensor:
    return torch.func.vmap(_scratch)(torch.ones(2, 3))


def _differentiated() -> torch.Tensor:
    return torch.func.grad(lambda x: (_scratch(x) * x).sum())(torch.ones(3))


def _pickled() -> list[Any]:
    names = [getattr(torch, name) for name in _NAMES]
    return [f(2, 2).shape for f in pickle.loads(pickle.dumps(names[:1]))]


def _fake() -> str:
    with torch._subclasses.FakeTensorMode():
        return str(torch.empty(3, device="cuda") if torch.cuda.is_available() else torch.empty(3))


def _by_default_device() -> torch.Tensor:
    with torch.device("cpu"):
        return torch.empty(3).fill_(2)


def _by_storage() -> tuple[int, list[int], bool]:
    storage = pickle.loads(pickle.dumps(torch.ones(2))).untyped_storage().fill_(3)
    copied = copy.deepcopy(storage)
    copied.resize_(16)
    return copied.nbytes(), list(storage), type(copied) is torch.UntypedStorage


def _compiled_resizing() -> torch.Tensor:
    def resizing(x: torch.Tensor) -> torch.Tensor:
        x.untyped_storage().resize_(0)
        x.untyped_storage().resize_(80)
        return x.fill_(1.0)

    torch._dynamo.reset()
    return torch.compile(resizing, backend="aot_eager", fullgraph=True)(torch.ones(20))


_USES: list[Callable[[], Any]] = [
    _scripted, _traced, _mapped, _differentiated, _pickled, _fake, _by_default_device,
    _by_storage, _compiled_resizing,
]  # fmt: skip


@pytest.mark.parametrize("use", _USES, ids=lambda use: use.__name__)
def test_programs_do_the_same_with_checks_on_off_and_on_again(use: Callable[[], Any]) -> None:
    expected = repr(use())
    for _ in range(2):
        with sanitize():
            assert repr(use()) == expected
        assert repr(use()) == expected


def test_no_public_name_is_replaced() -> None:
    def named() -> list[object]:
        functions = [getattr(torch, name) for name in _NAMES]
        return functions + [getattr(torch.Tensor, name) for name in _METHODS]

    before, attributes = named(), set(vars(torch.Tensor))
    with UninitialisedMemory():
        assert named() == before
        assert set(vars(torch.Tensor)) == attributes | {"__init_subclass__"}
    assert set(vars(torch.Tensor)) == attributes


@pytest.mark.slow
def test_compiled_graphs_have_no_breaks() -> None:
    for value in (1.0, 2.0):

        def allocating(x: torch.Tensor, value: float = value) -> torch.Tensor:
            return torch.empty(20).fill_(value) + x

        with sanitize():
            compiled = torch.compile(allocating, fullgraph=True, backend="eager")
            assert compiled(torch.ones(20)).sum().item() == 20 * (value + 1)


_ROWS = torch.arange(600)
_X = torch.arange(12.0).reshape(3, 4) / 7
#: Operators that allocate in various ways and write all elements of their results.
_OPERATORS: dict[str, Callable[[], torch.Tensor]] = {
    "clone": _X.clone,
    "contiguous": lambda: _X.t().contiguous(),
    "to": lambda: _X.to(torch.float64),
    "cat": lambda: torch.cat([_X, _X.flip(0)]),
    "stack": lambda: torch.stack([_X, _X]),
    "pad": lambda: F.pad(_X, (1, 2)),
    "index": lambda: _X[torch.tensor([2, 0])],
    "nonzero": lambda: _X.nonzero(),
    "unique": lambda: torch.unique(_X),
    "sort": lambda: torch.sort(_X, descending=True)[0],
    "topk": lambda: torch.topk(_X, 2)[1],
    "cumsum": lambda: torch.cumsum(_X, 1),
    "softmax": lambda: torch.softmax(_X, 1),
    "layer_norm": lambda: F.layer_norm(_X, (4,)),
    "conv": lambda: F.conv1d(_X[None], torch.ones(2, 3, 2)),
    "max_pool": lambda: F.max_pool1d(_X[None], 2),
    "interpolate": lambda: F.interpolate(_X[None], scale_factor=2.0),
    "embedding_bag": lambda: F.embedding_bag(torch.tensor([[1, 2]]), _X),
    "matmul": lambda: _X @ _X.t(),
    "einsum": lambda: torch.einsum("ij,kj->ik", _X, _X),
    "solve": lambda: torch.linalg.solve(torch.eye(3) * 2, _X),
    "svd": lambda: torch.linalg.svd(_X).S,
    "fft": lambda: torch.fft.rfft(_X).abs(),
    "scatter": lambda: torch.zeros(3, 4).scatter_add_(1, torch.zeros(3, 4).long(), _X),
    "histc": lambda: torch.histc(_X, 4),
    "bincount": lambda: torch.bincount(torch.tensor([1, 1, 3])),
    "masked_select": lambda: _X.masked_select(_X > 1),
    "where": lambda: torch.where(_X > 1, _X, 0.0),
    "repeat_interleave": lambda: _X.repeat_interleave(2, 0),
    "roll": lambda: _X.roll(1, 0),
    "complex": lambda: torch.complex(_X, _X).abs(),
    "quantile": lambda: torch.quantile(_X, 0.5, dim=1),
    "attention": lambda: F.scaled_dot_product_attention(_X[None], _X[None], _X[None]),
    "ctc": lambda: F.ctc_loss(
        _X[:, None].log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([2])
    ),
    "sparse": lambda: torch.sparse.mm(_X.to_sparse(), _X.t()),
    "gradient": lambda: torch.autograd.grad(
        F.gelu(x := _X.clone().requires_grad_()).sum(), x
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("name", _OPERATORS)
def test_operators_compute_the_same_and_leave_nothing_unwritten(name: str) -> None:
    expected = _OPERATORS[name]()
    with UninitialisedMemory() as memory:
        result = _OPERATORS[name]()
        storage = result.untyped_storage()
        assert memory.shadow_for(storage.data_ptr(), storage.nbytes()) is None
    assert torch.equal(result, expected)


@pytest.mark.parametrize("dtype", [torch.int16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("copy", [
    torch.clone, lambda x: x.t().contiguous(), lambda x: x.flip(0),
    lambda x: x[:, ::2].contiguous(), lambda x: x.expand(2, -1, -1).reshape(-1),
    lambda x: x.permute(1, 0).clone(memory_format=torch.contiguous_format),
    lambda x: torch.cat([x, x]), lambda x: torch.stack([x, x]), lambda x: x[_ROWS.flip(0)],
    lambda x: x.gather(0, torch.zeros(600, 600, dtype=torch.int64)), lambda x: x.roll(1, 0),
    lambda x: x.index_select(0, _ROWS), lambda x: x.to(torch.float64), lambda x: x.to(torch.int16),
    lambda x: torch.empty(600, 600, dtype=torch.complex64).copy_(x), lambda x: x.double().half(),
])  # fmt: skip
def test_copies_of_unwritten_elements_are_unwritten(
    copy: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    with UninitialisedMemory() as memory:
        source = torch.empty(600, 600, dtype=dtype)  # exceeds 1 MiB for wide elements
        result = copy(source)
        storage = result.untyped_storage()
        shadow = memory.shadow_for(storage.data_ptr(), storage.nbytes())
        assert shadow is not None
        assert shadow.all()


def test_written_elements_stay_written_in_copies_and_conversions() -> None:
    with UninitialisedMemory() as memory:
        source = torch.empty(600, 600)
        source[::2] = 3
        half = source.to(torch.float16)
        triangle = torch.tril(source)
        both = torch.cat([source, torch.ones(1, 600)])
        target = torch.zeros(600, 600, dtype=torch.float64)
        target[:, 300:] = source[:, 300:]
        for tensor in (half, triangle, both, target):
            storage = tensor.untyped_storage()
            shadow = memory.shadow_for(storage.data_ptr(), storage.nbytes())
            assert shadow is not None
            marks = shadow.reshape(*tensor.shape, tensor.element_size()).any(axis=-1)
            expected = torch.zeros(tensor.shape, dtype=torch.bool)
            expected[1:600:2] = True
            if tensor is triangle:
                expected = torch.tril(expected)
            if tensor is target:
                expected[:, :300] = False
            assert torch.equal(torch.from_numpy(marks), expected)
        assert (half[::2] == 3).all()
        assert torch.equal(target[::2, 300:], source[::2, 300:].double())


def test_scalars_in_place_of_tensors_are_copied() -> None:
    with UninitialisedMemory():
        x = torch.empty(3, 4, dtype=torch.float64)
        x[:] = 2**0.5
        x[0] = True
        x[1, 1:] = torch.tensor(7)
        x[2] = torch.arange(4)
        y = torch.where(x > 3, x, 0.1)
    assert x.tolist() == [[1.0] * 4, [2**0.5, 7.0, 7.0, 7.0], [0.0, 1.0, 2.0, 3.0]]
    assert y[0, 0].item() == pytest.approx(0.1)


@pytest.mark.parametrize(("name", "compute"), [
    ("mm", lambda x: x @ x), ("mv", lambda x: x @ x[0]), ("bmm", lambda x: x[None] @ x[None]),
    ("addmm", lambda x: F.linear(x, torch.ones(8, 8), torch.ones(8))),
    ("dot", lambda x: x[0].dot(torch.ones(8))), ("sum", lambda x: x.sum()),
    ("sum", lambda x: x.t()[1:].sum(1)), ("mean", lambda x: x.mean()), ("max", lambda x: x.max()),
    ("max", lambda x: x.max(0).values), ("argmin", lambda x: x.argmin(1)),
    ("linalg_vector_norm", lambda x: x.norm()), ("std", lambda x: x.std()),
    ("cumsum", lambda x: x.cumsum(0)), ("softmax", lambda x: x.softmax(-1)),
])  # fmt: skip
def test_products_and_sums_of_unwritten_elements_are_reported(
    name: str, compute: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    with sanitize() as report:
        compute(torch.empty(8, 8).fill_(1))
        assert report.warnings == []
        compute(torch.empty(8, 8))
        sentence, *_ = report.warnings  # some operators call others
    assert sentence.startswith(f"torch's `{name}` computed with memory that was never written")


def test_memory_too_large_to_fill_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttools.sanitizer.memory.uninitialised._ALWAYS", 1 << 10)
    monkeypatch.setattr("ttools.sanitizer.memory.uninitialised.most_filled", lambda: 1 << 12)
    with sanitize() as report:
        torch.empty(1 << 11, dtype=torch.uint8)
        assert report.warnings == []
        torch.empty(1 << 13, dtype=torch.uint8)
        (sentence,) = report.warnings
    assert sentence.startswith("8,192 bytes of memory")
