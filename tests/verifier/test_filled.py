"""Memory that neither a kernel nor an operator of torch has filled is told from what they fill."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

from ttools.verifier.judging.provenance import work_of_torch
from ttools.verifier.workers.filled import Filled
from ttools.verifier.workers.operators import Seen, watched
from ttools.verifier.workers.results import described

X = torch.arange(1, 17, dtype=torch.float32)


def poke(tensor: torch.Tensor, value: float = 3.0) -> torch.Tensor:
    """What C does that is given an address."""
    ctypes.c_float.from_address(tensor.data_ptr()).value = value
    return tensor


def found(function: Callable[[torch.Tensor], object]) -> list[tuple[str, int, bool]]:
    """What is found in a call that ends with a launch and a result."""
    filled = Filled()
    filled.use("", [X])
    with watched(Seen(filled)):
        result = function(X)
    filled.use("result has", [result])
    return filled.found


def without_modes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    with _disable_current_modes():
        out.copy_(x.exp())
    return out


def gradient(x: torch.Tensor) -> torch.Tensor | None:
    leaf = x.clone().requires_grad_()
    (leaf.exp().cumsum(0) * leaf).sum().backward()
    (leaf * 2).sum().backward()
    return leaf.grad


@pytest.mark.parametrize(
    ("function", "where"),
    [
        (lambda x: poke(torch.empty_like(x)), "result has"),
        (lambda x: poke(torch.zeros_like(x)), "result has"),
        (lambda x: poke(x + 1), "result has"),
        (lambda x: poke(torch.ones(16)).clone(), "`clone` gets"),
        (lambda x: torch.ones(16).copy_(poke(torch.ones(16))), "`copy_` gets"),
        (lambda x: poke(torch.ones(16)).view(4, 4).t(), "`view` gets"),
        (without_modes, "result has"),
    ],
)
def test_what_is_computed_outside_is_found(
    function: Callable[[torch.Tensor], object], where: str
) -> None:
    assert found(function)[0] == (where, 16, True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: torch.zeros(16).copy_(x).mul_(2)[2:].add_(x[:14]),
        lambda x: torch.exp(x, out=torch.empty(16)),
        lambda x: torch.stack(torch._foreach_add([x, x + 1], 1)),
        lambda x: torch.empty(16).resize_(32).fill_(1)[::2].clone(),
        lambda x: torch.from_numpy(x.numpy() + 1),
        lambda x: torch.tensor([1.0, 2.0] * 8) + x,
        gradient,
        lambda x: poke(torch.empty(16)).fill_(1),  # nothing of it is left
        lambda x: torch.empty(16, device="meta"),
        lambda x: torch.stack([torch.empty(16).normal_() for _ in range(8)]),
    ],
)
def test_what_operators_do_is_not(function: Callable[[torch.Tensor], object]) -> None:
    assert found(function) == []


def test_what_kernels_write_is_theirs() -> None:
    filled, out = Filled(), torch.zeros(16)
    filled.use("`first` gets", [out, 3, None])
    poke(out)
    filled.change([out])
    filled.use("`second` gets", [out[3:]])
    assert not filled.found
    # Where a kernel may have written to any memory, nothing is known.
    poke(out, 5)
    filled.change_all()
    filled.use("`third` gets", [out])
    assert not filled.found
    poke(out, 7)
    filled.use("`fourth` gets", [out[3:]])
    filled.use("`fifth` gets", [out])
    assert filled.found == [("`fourth` gets", 13, True)]


def test_memory_of_another_tensor_at_the_same_address_is_another() -> None:
    filled = Filled()
    for value in range(64):
        # The allocator gives the same memory again and again.
        filled.use("`k` gets", [poke(torch.empty(1 << 12), value)])
    assert not filled.found


@pytest.mark.parametrize(
    ("filled", "count"),
    [(["`k` gets", 16, True], 1), (["`k` gets", 3, True], 0), (["`k` gets", 16, False], 0)],
)
def test_few_elements_and_integers_are_preparation(filled: list[object], count: int) -> None:
    answer = {"operators": [], "copied": [], "launches": 1, "lazy": [], "given": []}
    answer["filled"] = [filled]
    part = described("result", X.exp(), {})
    image = described("x", X, {})["image"]
    problems = work_of_torch(answer, {"given": [part], "operators": []}, [image], is_right=True)
    assert len(problems) == count
    if count:
        assert problems[0].detail == (
            "`k` gets 16 elements that neither a kernel nor an operator of torch has written, "
            "in a call with 16"
        )


def test_memory_of_other_devices_is_not_read() -> None:
    """A GPU's memory has addresses, too, and reading there would end the process."""
    filled = Filled(frozenset(("cuda",)))
    x = torch.zeros(16)
    filled.use("here", [x])
    filled.use("here", [poke(x)])
    assert filled.found == []
