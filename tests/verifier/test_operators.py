"""What is seen of a program that computes with torch, or elsewhere."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ttools.verifier.judging.provenance import work_of_torch
from ttools.verifier.workers import custom_operators
from ttools.verifier.workers.operators import Seen, watched
from ttools.verifier.workers.results import described, is_lazy


def in_thread(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        found = []
        thread = threading.Thread(target=lambda: found.append(function(x)))
        thread.start()
        thread.join()
        return found[0]

    return run


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
}
PREPARING = {
    "copies": lambda x: x.contiguous().clone().reshape(4, 4).t().contiguous(),
    "allocates": torch.zeros_like,
    "asks": lambda x: torch.zeros(int((x > 0).sum())),
    "a single number": lambda x: x[0].item(),
    "constants": lambda x: (torch.arange(16) / 16).exp()[:, None] * torch.tensor([1.0, 2.0]),
    "integers": lambda x: torch.arange(16).cumsum(0).tolist(),
}


def judged(function: Callable[..., object], x: torch.Tensor, wanted: torch.Tensor) -> list[str]:
    """What `work_of_torch` says of a function whose result was right."""
    seen = Seen()
    with watched(seen):
        function(x)
    answer = {
        "operators": [[name, *counts] for name, counts in seen.counts.items()],
        "copied": [["result", seen.origin(wanted)]],
        "launches": 1,
        "lazy": [],
    }
    part = described("result", wanted, {})
    right = {"given": [part], "operators": ["isnan"]}
    image = described("x", x, {})["image"]
    return [each.detail for each in work_of_torch(answer, right, [image], is_right=True)]


@pytest.mark.parametrize("name", COMPUTING)
def test_computing_is_seen(name: str) -> None:
    x = torch.randn(16)
    assert judged(COMPUTING[name], x, x + 1)


@pytest.mark.parametrize("name", PREPARING)
def test_preparing_is_not_computing(name: str) -> None:
    x = torch.randn(16)
    assert not judged(PREPARING[name], x, x + 1)


def test_integers_that_torch_computed_are_known_again() -> None:
    x = torch.arange(-8, 8)
    assert judged(lambda x: x.clamp(min=0), x, x.clamp(min=0)) == [
        "result is what torch's `clamp` computed"
    ]
    assert not judged(lambda x: x.cumsum(0), x, x.clamp(min=0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_floats_that_torch_computed_are_known_again(dtype: torch.dtype) -> None:
    x, parts = torch.randn(100, 9), torch.randn(9)
    last = parts.sum().to(dtype)
    assert judged(lambda _: parts.sum().to(dtype).clone(), x, last) == [
        "result is what torch's `sum` computed"
    ]
    assert not judged(lambda _: parts.sum().to(dtype), x, last + 1)
    # Sums that anyone may come to, and what is made of single numbers.
    assert not judged(lambda _: torch.ones(9).sum(), x, torch.tensor(9.0))
    assert not judged(lambda _: parts[0] * 2, x, parts[0] * 2)


def test_a_question_that_the_reference_asks_is_computing() -> None:
    x = torch.randn(16)
    assert judged(torch.isnan, x, x > 0)


def test_what_registered_operators_run_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.library.Library, "impl", torch.library.Library.impl)
    custom_operators.follow()
    library = torch.library.Library("ttools_test", "DEF")
    library.define("clone(Tensor x) -> Tensor")
    library.define("add_to(Tensor x) -> Tensor")
    # A name of torch's is free, but says nothing in another library.
    library.impl("clone", lambda x: torch.exp(x), "CPU")
    library.impl("add_to", lambda x: torch.empty_like(x), "CPU")

    @torch.library.custom_op("ttools_test::halve", mutates_args=())
    def halve(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() / 2)

    x = torch.randn(16)
    for function, found in (
        (torch.ops.ttools_test.clone, "torch computes: `exp` on 16 elements, in a call with 16"),
        (halve, "torch takes away: `numpy` on 16 elements, in a call with 16"),
    ):
        assert judged(function, x, x + 1) == [found]
    assert not judged(torch.ops.ttools_test.add_to, x, x + 1)


def test_threads_are_left_as_they_were() -> None:
    run = threading.Thread.run
    with watched(Seen()):
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
