"""Reads by the host are seen while they are watched, and programs behave as without the watch."""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from ttools.sanitizer.memory.host_reads import HostReads, ReadKind


class Log:
    """Records the names of the tensors that were read and written."""

    def __init__(self, **tensors: torch.Tensor) -> None:
        self.names = {tensor.untyped_storage().data_ptr(): name for name, tensor in tensors.items()}
        self.read: set[str] = set()
        self.written: set[str] = set()

    def _name(self, tensor: Any) -> set[str]:
        if type(tensor) is not torch.Tensor:
            return set()
        name = self.names.get(tensor.untyped_storage().data_ptr())
        return set() if name is None else {name}

    def reads(
        self, tensor: Any, result: Any = None, again: Any = None, *, how: ReadKind = "computing"
    ) -> None:
        self.read |= self._name(tensor)

    def copied(self, tensor: Any, copy: Any) -> None:
        assert copy.shape == tensor.shape

    def writes(self, tensor: Any, *, is_whole: bool = True) -> None:
        self.written |= self._name(tensor)


A, B = torch.rand(4, 4), torch.rand(4, 4)


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log(a=A, b=B)
    watched = HostReads(log)
    watched.begin()
    yield log
    watched.close()


@pytest.mark.parametrize(("use", "read", "written"), [
    (lambda: A + 1, "a", ""), (lambda: A.add_(B), "ab", "a"), (lambda: A.copy_(B), "b", "a"),
    (lambda: torch.mul(A, 2, out=B), "a", "b"), (lambda: A.t()[1:], "", ""),
    (lambda: torch.stack([A, B]), "ab", ""), (lambda: A.fill_(1), "", "a"),
    (lambda: torch.empty_like(A), "", ""), (lambda: A.numpy(), "a", ""), (lambda: str(B), "b", ""),
    (lambda: A.tolist(), "a", ""), (lambda: A.new_zeros(3), "", ""),
    (lambda: bool(A[0, 0]), "a", ""),
    (lambda: torch.linalg.solve(torch.eye(4), B), "b", ""), (lambda: A.normal_(), "", "a"),
    (lambda: A.nan_to_num_(), "a", "a"), (lambda: torch._foreach_mul_([A, B], 2.0), "ab", "ab"),
    (lambda: A.round_(), "a", "a"), (lambda: torch.nn.functional.silu(A, inplace=True), "a", "a"),
    (lambda: A.index_fill_(0, torch.tensor([1]), 0.0), "", "a"), (lambda: A.t_(), "", "a"),
    (lambda: A.masked_fill_(B > 2, 0.0), "b", "a"), (lambda: A.unsqueeze_(0).squeeze_(0), "", "a"),
    (lambda: pickle.dumps(A), "a", ""), (lambda: torch.save([B], io.BytesIO()), "b", ""),
])  # fmt: skip
def test_reads_and_writes_of_operators(
    log: Log, use: Callable[[], object], read: str, written: str
) -> None:
    use()
    assert (log.read, log.written) == (set(read), set(written))


class Begins(torch.autograd.Function):
    """An identity whose backward pass begins the watch."""

    watched: HostReads

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        Begins.watched.begin()
        return gradient


@pytest.mark.parametrize("by", ["backward", "grad"])
def test_reads_after_a_backward_pass_are_seen(by: str) -> None:
    log = Log(a=A, b=B)
    Begins.watched = watched = HostReads(log)
    watched.open()
    for _ in range(2):
        x = torch.rand(3, requires_grad=True)
        y = Begins.apply(x).sum()
        y.backward() if by == "backward" else torch.autograd.grad(y, x)
        assert _modes() == ["Reading"]
    (A + 1).sum()
    watched.close()
    assert (log.read, _modes()) == ({"a"}, [])


def test_reads_by_a_new_thread_are_seen() -> None:
    log = Log(a=A, b=B)
    watched = HostReads(log)
    watched.open()
    watched.begin()
    for compute in (lambda: A + 1, lambda: B + 1):
        thread = threading.Thread(target=compute)
        thread.start()
        thread.join()
        watched.end()
    watched.close()
    assert log.read == {"a"}


def _modes() -> list[str]:
    return [type(mode).__name__ for mode in _get_current_dispatch_mode_stack()]


class Other(TorchDispatchMode):
    """A dispatch mode of the program, which has to see the same operators as without the watch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_modes_of_the_program_may_begin_and_end_at_any_time() -> None:
    log = Log(a=A)
    watched = HostReads(log)
    with Other() as mode:
        watched.begin()
        watched.begin()
        assert _modes() == ["Reading", "Other"]
        A.sum()
        assert mode.seen == ["aten::sum"]
    assert _modes() == ["Reading"]
    with Other():
        watched.end()
        assert _modes() == ["Other"]
    assert _modes() == []
    assert log.read == {"a"}
    watched.begin()
    watched.close()
    assert _modes() == []
    assert not hasattr(torch.Tensor.numpy, "__wrapped__")


def test_other_threads_are_not_watched(log: Log) -> None:
    names: list[list[str]] = []
    thread = threading.Thread(target=lambda: names.append(_modes()))
    thread.start()
    thread.join()
    assert names == [[]]


@pytest.mark.usefixtures("log")
def test_compilation_and_transforms_still_work() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.empty(4, 4).fill_(2) * x

    x = torch.ones(4, 4)
    assert torch.equal(torch.compile(twice, fullgraph=True, backend="eager")(x), x * 2)
    assert torch.equal(torch.jit.script(twice)(x), x * 2)
    assert torch.equal(torch.func.vmap(lambda row: row * 2)(x), x * 2)
    assert torch.equal(torch.func.grad(lambda y: (y * 2).sum())(x), x * 2)
    leaf = x.clone().requires_grad_()
    (leaf * 2).sum().backward()
    assert leaf.grad is not None
    assert torch.equal(leaf.grad, x * 2)
    with torch._subclasses.FakeTensorMode():
        assert (torch.empty(3) + 1).shape == (3,)
