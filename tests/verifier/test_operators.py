"""Computations of a program, with torch or elsewhere, are observed."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from ttools.core.spec import TensorSpec
from ttools.verifier.api import verify
from ttools.verifier.cases.tensors import image_of
from ttools.verifier.replay.execution import Executor
from ttools.verifier.replay.moves import MovedValues
from ttools.verifier.replay.plan import read_plan
from ttools.verifier.replay.work import Work
from ttools.verifier.run.provenance import work_of_torch
from ttools.verifier.workers import custom_operators
from ttools.verifier.workers.operators import watched
from ttools.verifier.workers.recording import PlanRecorder
from ttools.verifier.workers.replayer import Replayer
from ttools.verifier.workers.results import described, is_lazy


def in_thread(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        found = []
        thread = threading.Thread(target=lambda: found.append(function(x)))
        thread.start()
        thread.join()
        return found[0]

    return run


def with_constant(x: torch.Tensor) -> torch.Tensor:
    """Return a copy with one more element, which is a constant."""
    copy = torch.empty(17)
    copy[:16].copy_(x)
    torch.full((1,), 0.0, out=copy[16:])
    return copy


COMPUTING = {
    "operator": torch.exp,
    "torch.ops": lambda x: torch.ops.aten.exp(x),
    "dunder": lambda x: operator.mul(x, x),
    "thread": in_thread(torch.exp),
    "thread and NumPy": in_thread(lambda x: torch.from_numpy(np.exp(x.numpy()))),
    "numpy": lambda x: torch.from_numpy(np.exp(x.numpy())),
    "asarray": lambda x: torch.from_numpy(np.exp(np.asarray(x))),
    "dlpack": lambda x: torch.as_tensor(np.exp(np.from_dlpack(x))),
    "one by one": lambda x: torch.tensor([float(each) * 2 for each in x]),
    "constants and an argument": lambda x: torch.arange(16) / 16 * x,
    "into a constant": lambda x: torch.linspace(0, 1, 16).add_(x).exp(),
    "tolist": lambda x: torch.tensor([each * 2 for each in x.tolist()]),
    "many small ones": lambda x: torch.stack([each.exp() for each in x]),
    "a norm over an axis of one element": lambda x: x[:, None].norm(dim=1),
    "an integer sum over an axis of one element": lambda x: x[:, None].sum(1, dtype=torch.int32),
    "different small ones": lambda x: torch.cat([x[:4].exp(), x[4:8].sin(), x[8:]]),
    "bits": lambda x: x.view(torch.int32) & 0x7FFFFFFF,
    "integers in memory of floats": lambda x: x.view(torch.int32) * 2,
    "conversion to integers": lambda x: x.to(torch.int32),
    "conversion by another operator": lambda x: torch.slice_scatter(x.new_zeros(16, dtype=int), x),
    "conversion of bits": lambda x: x.view(torch.int32).to(torch.bool),
    "constants between elements": lambda x: torch.linspace(x[0], x[1], 16).exp(),
    "a constant in a part": lambda x: with_constant(x)[:16].exp(),
    "sorting": lambda x: x.argsort(),
    "many comparisons": lambda x: sum((x > step).to(torch.int32) for step in range(8)),
}
PREPARING = {
    "copies": lambda x: x.contiguous().clone().reshape(4, 4).t().contiguous(),
    "allocates": torch.zeros_like,
    "reductions of one element": lambda x: [
        reduced(x[None, :, None], (0, 2))
        for reduced in (torch.sum, torch.mean, torch.amax, torch.amin, torch.logsumexp)
    ],
    "asks": lambda x: torch.zeros(int((x > 0).sum())),
    "a single number": lambda x: x[0].item(),
    "some single numbers": lambda x: ((x[0] * 2 + 1).sqrt() / 3).exp(),
    "constants": lambda x: (torch.arange(16) / 16).exp()[:, None] * torch.tensor([1.0, 2.0]),
    "integers": lambda x: torch.arange(16).cumsum(0).tolist(),
    "masks": lambda x: (x > 0) & (x < 1),
    "a constant that is filled": lambda x: (torch.full((16,), 3.0) + torch.zeros(16)).exp(),
    "bits": lambda x: x.view(torch.int32).clone().view(torch.float32),
    "arranged elements": lambda x: torch.cat([x.flip(0), x.roll(1)]),
    "integers that are allocated": lambda x: torch.empty_like(x, dtype=torch.int32) + 1,
}


def details(
    answer: dict[str, Any],
    x: torch.Tensor,
    wanted: torch.Tensor,
    operators: Sequence[str] = ("exp", "isnan"),
) -> list[str]:
    """Return what `work_of_torch` says of a call whose result was right."""
    answer = {"launches": 1, "lazy": [], **answer}
    right = {"given": [described("result", wanted, {})], "operators": list(operators)}
    image = described("x", x, {})["image"]
    return [each.detail for each in work_of_torch(answer, right, {"x": image}, is_right=True)]


def problems_of(
    function: Callable[..., object], x: torch.Tensor, wanted: torch.Tensor
) -> list[str]:
    """Return the problems of a function that is observed while it runs; it may have no plan."""
    recorder = PlanRecorder([("x", x)], is_on_host=False)
    with watched(recorder):
        function(x)
    counts = recorder.work.counts.items()
    return details({"operators": [[name, *each] for name, each in counts]}, x, wanted)


def replayed(function: Callable[..., torch.Tensor], x: torch.Tensor) -> list[str]:
    """Return the problems of a function whose plan is executed."""
    recorder = PlanRecorder([("x", x)])
    with watched(recorder):
        result = function(x)
    data, problem = recorder.plan([("result", result)])
    assert not problem
    replayer = Replayer(timeout=2.0)
    replayer.answer({"do": "plan", "data": data})
    answer = replayer.answer({"do": "call", "arguments": {"x": image_of(x)}})
    return details({**answer, "launches": 1}, x, result)


@pytest.mark.parametrize("name", COMPUTING)
def test_computing_is_seen(name: str) -> None:
    x = torch.randn(16)
    assert problems_of(COMPUTING[name], x, x + 1)


@pytest.mark.parametrize("name", PREPARING)
def test_preparing_is_not_computing(name: str) -> None:
    x = torch.randn(16)
    assert not problems_of(PREPARING[name], x, x + 1)


def test_integers_that_torch_computed_are_known_again() -> None:
    x = torch.arange(-8, 8)
    assert replayed(lambda x: x.clamp(min=0), x) == ["result was computed by torch's `clamp`"]
    assert not replayed(lambda x: x.roll(1), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_floats_that_torch_computed_are_known_again(dtype: torch.dtype) -> None:
    x = torch.randn(100, 9)
    said = ["result was computed by torch's `sum`"]
    assert replayed(lambda x: x[0].sum().to(dtype).clone(), x) == said
    assert not replayed(lambda x: x[0, 3:4].clone().to(dtype), x)
    # Sums that anyone may come to, and what is made of single numbers.
    assert not replayed(lambda x: (x[0] * 0 + 1).sum(), x)
    assert not replayed(lambda x: x[0, 0] * 2, x)


@pytest.mark.parametrize("name", ["operator", "thread", "dunder", "into a constant"])
def test_computing_is_counted_where_a_plan_is_executed(name: str) -> None:
    assert replayed(COMPUTING[name], torch.randn(16))[0].startswith("torch computes: ")


def test_operators_on_what_a_kernel_wrote_are_counted() -> None:
    """A table that the program keeps is a constant until a kernel writes to it."""
    work, table = (
        Work([0]),
        TensorSpec(storage=0, offset=0, shape=(16,), strides=(1,), dtype="float32", itemsize=4),
    )
    assert not work.operator("aten::exp", [table], [replace(table, storage=1)])
    work.launch([0])
    assert work.operator("aten::exp", [table], [replace(table, storage=2)])
    assert work.counts == {"exp": (16, 0, 16)}


FLOATS = TensorSpec(storage=0, offset=0, shape=(16, 8), strides=(8, 1), dtype="float32", itemsize=4)


def test_a_reduction_of_what_a_kernel_wrote_finishes_a_result() -> None:
    work, row = Work(), replace(FLOATS, storage=1, shape=(8,), strides=(1,))
    assert work.operator("aten::sum.dim_IntList", [FLOATS], [row]) == "computes"
    work.launch([0])
    assert work.operator("aten::sum.dim_IntList", [FLOATS], [row]) == "finishes"
    assert work.operator("aten::exp", [FLOATS], [replace(FLOATS, storage=2)]) == "computes"
    assert work.counts == {"sum": (128, 0, 128), "exp": (128, 0, 128)}
    assert work.finishing == {"sum": 128}
    assert not work.finishing_steps(0)
    work.launch([3], [1])
    assert work.finishing_steps(1) == work.finishing_steps(3) == [("sum", 128, 16)]
    work.launch([3], [0])
    assert work.finishing_steps(3) == [("sum", 128, 16)]  # a kernel may write to a part of it


def test_a_product_with_an_upstream_gradient_finishes_a_result() -> None:
    work, single = Work(), replace(FLOATS, storage=1, shape=(), strides=())
    other, made = replace(single, storage=3), replace(FLOATS, storage=2)
    work.launch([0])
    assert work.operator("aten::mul.Tensor", [FLOATS, single], [made]) == "computes"
    work.receives_gradient(1)
    assert work.operator("aten::mul.Tensor", [FLOATS, single], [made]) == "finishes"
    assert work.operator("aten::neg", [single], [other]) == "computes"
    assert work.operator("aten::mul.Tensor", [other, FLOATS], [made]) == "finishes"
    work.receives_gradient(4)
    whole = replace(FLOATS, storage=4)
    assert work.operator("aten::mul.Tensor", [FLOATS, whole], [made]) == "computes"
    assert work.counts["mul"] == (256, 0, 256)
    assert work.finishing == {"mul": 256}


LOSSES = """
import torch
import triton
import triton.language as tl

DOMAIN = {"M": (1, 40), "N": (16, 64), "dtype": ["float32"]}


@triton.jit
def loss_kernel(x_ptr, loss_ptr, grad_ptr, s0, s1, N, M, B: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, B)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < N, other=0.0)
    tl.store(loss_ptr + row, tl.sum(x * x) / N)
    tl.store(grad_ptr + row * N + c, 2 * x / N / M, mask=c < N)


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        M, N = x.shape
        losses, gradient = torch.empty(M), torch.empty(M, N)
        loss_kernel[(M,)](x, losses, gradient, *x.stride(), N, M, B=64)
        ctx.save_for_backward(gradient)
        return losses.mean()

    @staticmethod
    def backward(ctx, upstream):
        return ctx.saved_tensors[0] * upstream


def candidate(x):
    return Loss.apply(x)


def reference(x):
    return (x * x).mean()


def inputs(M, N, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(M, N, generator=generator).requires_grad_()}
"""


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_torch_may_finish_results_unless_the_user_forbids_it(fails: bool, tmp_path: Path) -> None:
    file = tmp_path / "losses.py"
    file.write_text(LOSSES)
    names = ("candidate", "reference", "inputs")
    subject: dict[str, Any] = {name: f"{file}:{name}" for name in names}
    # The process must be new, because a backward pass on a device may have started threads here.
    verification = verify(**subject, cases=12, all_sizes_seconds=0, fail_on_torch=fails)
    if fails:
        (failure,) = verification.failures
        assert failure.failure == "not_computed_by_kernel"
        assert "torch finishes a result: " in failure.detail
    else:
        assert verification.outcome == "passed", (verification.reason, verification.failures)
        (note,) = [n for n in verification.notes if "torch finishes the results" in n]
        assert "`mean`" in note
        assert "`mul`" in note


def test_a_call_that_has_no_plan_is_counted() -> None:
    """A program must not be able to end the counting by a tensor that no plan contains."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.to_sparse().to_dense().exp()

    x = torch.randn(16)
    assert problems_of(function, x, x + 1)
    recorder = PlanRecorder([("x", x)])
    with watched(recorder):
        x.to_sparse()
        dense = torch.sin(x.to_sparse()).to_dense()
    assert recorder.plan([("result", dense)])[0] == b""
    assert recorder.work.counts


@pytest.mark.parametrize(
    ("needed", "function", "is_found"),
    [
        ([], lambda x: x.flip(0), False),
        (["flip"], lambda x: x.flip(0), True),
        (["flip"], lambda x: torch.nn.functional.pad(x, (0, 8)), False),
        (["flip", "exp"], lambda x: x.flip(0), False),
        (["isnan"], lambda x: x > 0, True),
        (["isnan", "exp"], lambda x: x > 0, False),
    ],
)
def test_moves_and_tests_count_if_the_reference_consists_of_them(
    needed: list[str], function: Callable[..., torch.Tensor], is_found: bool
) -> None:
    x = torch.randn(16)
    recorder = PlanRecorder([("x", x)], is_on_host=False)
    with watched(recorder):
        function(x)
    counts = [[name, *each] for name, each in recorder.work.counts.items()]
    found = details({"operators": counts}, x, x + 1, operators=needed)
    assert bool(found) is is_found


def test_sorted_integers_of_kernels_count_as_tests() -> None:
    keys = TensorSpec(storage=0, offset=0, shape=(16,), strides=(1,), dtype="int32", itemsize=4)
    work = Work()
    work.operator("aten::sort", [keys], [replace(keys, storage=1)])
    assert work.counts == {"sort": (0, 0, 16)}
    work.launch([0])
    work.operator("aten::clone", [keys], [replace(keys, storage=2)])
    work.operator("aten::sort", [replace(keys, storage=2)], [replace(keys, storage=3)])
    assert work.counts == {"sort": (0, 16, 32)}


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x.flip(0).clone(), "flip"),
        (lambda x: x.to(torch.bfloat16).float(), "_to_copy"),
        (lambda x: torch.cat([x[8:], x[:8]]), "cat"),
        (lambda x: x.clone(), ""),
        (lambda x: x.view(4, 4).t().contiguous().t(), ""),
        (lambda x: x.exp().flip(0), ""),
        (lambda x: x.view(torch.int32).flip(0).view(torch.float32), "flip"),
    ],
)
def test_elements_that_torch_moved_are_known_again(
    function: Callable[..., torch.Tensor], operator: str
) -> None:
    x = torch.randn(16)
    executor = Executor(timeout=2.0)
    recorder = PlanRecorder([("x", x)])
    with watched(recorder):
        result = function(x)
    data, problem = recorder.plan([("result", result)])
    assert not problem
    executor.run(read_plan(data), {"x": x})
    assert executor.moved == ([["result", operator, False, 1.0]] if operator else [])


X = torch.randn(13, 17, generator=torch.Generator().manual_seed(0))


#: Rows of X in another order, one of them twice.
ROWS = [2, 5, 2, 9, 1, 0, 12, 10, 3, 11, 4]


def between(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor in which there is a gap after each element of x."""
    return torch.stack([x, torch.zeros_like(x)], dim=-1)


def without_first_row(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.zeros_like(x[:1]), x[1:], torch.zeros_like(x[:1])])


@pytest.mark.parametrize(
    ("made", "result", "least", "most"),
    [
        (torch.cat([X.flip(0), X[:0], torch.zeros(2, 17)]), X.flip(0), 1.0, 1.0),
        (torch.cat([X.flip(0), torch.zeros(2, 17)]).view(torch.int32), X.flip(0), 1.0, 1.0),
        (between(X.flip(0)), X.flip(0) * 1.00001, 1.0, 1.0),
        (without_first_row(X.t()), X.t().contiguous(), 0.9, 0.95),
        (X[[8, *ROWS]], X[[7, *ROWS]], 0.9, 0.95),
        (torch.cat([X, torch.zeros(2, 17)]).bfloat16(), X.bfloat16(), 1.0, 1.0),
        (torch.nn.functional.pad(X, (0, 15, 0, 3)), X.t().contiguous(), 0.0, 0.0),
        (torch.cat([X, torch.zeros(2, 17)]), X.flip(0), 0.0, 0.0),
        (torch.cat([X, torch.zeros(2, 17)]), X[2:], 0.0, 0.0),
        (torch.cat([X.flip(0), torch.zeros(2, 17)]), X.flip(0).exp(), 0.0, 0.0),
        (X.bfloat16(), X * 1.02, 0.0, 0.0),
    ],
)
def test_parts_of_tensors_that_torch_moved_are_known_again(
    made: torch.Tensor, result: torch.Tensor, least: float, most: float
) -> None:
    moves = MovedValues()
    moves.argument(0, X)
    place = TensorSpec(
        storage=0, offset=0, shape=(13, 17), strides=(17, 1), dtype="float32", itemsize=4
    )
    moves.moved("aten::cat", [(place, X)], replace(place, storage=1), made, is_whole=True)
    operator, share = moves.operator_of(result)
    assert least <= share <= most
    assert operator == ("cat" if least else "")


def test_bytes_of_floats_that_are_viewed_as_bools_are_tested() -> None:
    floats = TensorSpec(storage=0, offset=0, shape=(16,), strides=(1,), dtype="float32", itemsize=4)
    work = Work()
    work.contains_floats(0)
    taken = replace(floats, shape=(64,), dtype="bool", itemsize=1)
    work.operator("aten::any.dim", [taken], [replace(taken, storage=1, shape=(16,))])
    assert work.counts == {"any": (0, 64, 64)}


def test_elements_that_a_view_combines_are_counted_one_by_one() -> None:
    words = TensorSpec(storage=0, offset=0, shape=(4,), strides=(1,), dtype="int64", itemsize=8)
    work = Work()
    work.contains_items(0, 1)
    work.operator("aten::bitwise_and.Scalar", [words], [replace(words, storage=1)])
    work.operator("aten::bitwise_or.Scalar", [replace(words, storage=1)], [words])
    assert work.counts == {"bitwise_and": (32, 0, 32), "bitwise_or": (32, 0, 32)}
    x = torch.arange(16, dtype=torch.int8)
    assert problems_of(lambda x: x.view(torch.int64) & 0x7F, x, x + 1)


def test_an_argument_without_elements_permits_torch_only_if_the_result_depends_on_it() -> None:
    x, bias = torch.randn(16), torch.empty(0)
    recorder = PlanRecorder([("x", x), ("bias", bias)], is_on_host=False)
    with watched(recorder):
        softmax, joined = x.softmax(0), torch.cat([x, bias])
    assert recorder.sources_of(softmax) == {"x"}
    assert recorder.sources_of(joined) == {"x", "bias"}
    answer = {"operators": [["_softmax", 16, 0, 16]], "launches": 1, "lazy": []}
    images = {"x": image_of(x), "bias": image_of(bias)}
    right = {"given": [described("result", softmax, {})], "operators": ["_softmax"]}
    for sources, count in (([["x"]], 1), ([["bias", "x"]], 0)):
        found = work_of_torch(answer, {**right, "sources": sources}, images, is_right=True)
        assert len(found) == count


def test_a_question_that_the_reference_asks_is_computing() -> None:
    x = torch.randn(16)
    assert problems_of(torch.isnan, x, x > 0)


def test_what_registered_operators_run_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.library.Library, "impl", torch.library.Library.impl)
    custom_operators.follow()
    library = torch.library.Library("ttools_test", "DEF")
    library.define("clone(Tensor x) -> Tensor")
    library.define("add_to(Tensor x) -> Tensor")
    # Operators with this name are exempt in torch, but not in another library.
    library.impl("clone", lambda x: torch.exp(x), "CPU")
    library.impl("add_to", lambda x: torch.empty_like(x), "CPU")

    @torch.library.custom_op("ttools_test::halve", mutates_args=())
    def halve(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() / 2)

    x = torch.randn(16)
    for function, found in (
        (torch.ops.ttools_test.clone, "torch computes: `exp` on 16 elements"),
        (halve, "torch exports elements: `numpy` on 16 elements"),
    ):
        (detail,) = problems_of(function, x, x + 1)
        assert detail == f"{found}, in a call whose largest tensor has 16"
    assert not problems_of(torch.ops.ttools_test.add_to, x, x + 1)


def test_threads_are_left_as_they_were() -> None:
    run = threading.Thread.run
    with watched(PlanRecorder([])):
        pass
    assert threading.Thread.run is run


class Lazy(torch.Tensor):
    """Computes when it is looked at."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*(each.as_subclass(torch.Tensor).exp() for each in args), **(kwargs or {}))


def test_tensors_that_compute_when_looked_at() -> None:
    x = torch.randn(16)
    assert is_lazy(x.as_subclass(Lazy))
    assert not any(map(is_lazy, [x, torch.nn.Parameter(x), x[1:], 3]))
