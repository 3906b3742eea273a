"""Results that launches were given, and tensors where others lay."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer.api import sanitize
from ttools.verifier.cases.tensors import (
    image_of,
    memory_bytes,
    put_values,
    raw_bytes,
    tensor_of,
)
from ttools.verifier.workers.candidate import Candidate, _too_large
from ttools.verifier.workers.given import Given

X = torch.arange(1, 17, dtype=torch.float32)


@triton.jit
def copy_kernel(x_ptr, o_ptr, N: tl.constexpr):
    c = tl.arange(0, N)
    tl.store(o_ptr + c, tl.load(x_ptr + c))


def test_what_a_kernel_copies_is_told() -> None:
    given = Given([X])
    made = X.double().exp().float()
    given.note("copy", [made, 3, X])
    assert given.kernel_of(made.clone()) == ("copy", False)
    assert given.kernel_of(made + 1) == ("", False)


def test_copies_and_conversions_of_arguments_are_anyones() -> None:
    given = Given([X.reshape(4, 4)])
    copies = [X.clone(), X.half(), torch.ones(9)]
    given.note("copy", copies)
    assert [given.kernel_of(each.clone())[0] for each in copies] == ["", "", ""]


def test_what_gradients_are_weighted_by_is_an_argument() -> None:
    given, weights = Given([X]), X.exp()
    given.take([weights])
    given.note("backward", [weights, weights.clone()])
    assert given.kernel_of(weights.clone()) == ("", False)


def test_elements_that_were_moved_are_told_from_others() -> None:
    given = Given([X.reshape(4, 4)])
    moved = [X.flip(0), X.roll(1), torch.cat([X, torch.zeros(4)]), X.reshape(4, 4).t().contiguous()]
    given.note("copy", moved)
    assert {given.kernel_of(each.clone()) for each in moved} == {("copy", True)}


def test_what_an_earlier_launch_got_it_may_have_written() -> None:
    given, out = Given([X]), torch.empty(16)
    given.note("first", [out])
    out.copy_(X.exp())
    given.note("second", [out])
    assert given.kernel_of(out.clone()) == ("", False)


def test_workspaces_hold_what_the_last_call_left_there() -> None:
    left: dict[int, bytes] = {}
    workspace, kept = torch.empty(16), torch.empty(16)
    first = Given([X], left)
    first.note("part", [X, workspace, kept], [1, 2])
    workspace.copy_(X.exp()), kept.copy_(X.exp())
    first.leave([X, workspace, kept], [1, 2])
    # What this kernel only reads is what it copies from, whoever has computed it.
    second = Given([X], left)
    second.note("part", [X, workspace], [1])
    assert second.kernel_of(X.exp()) == ("", False)
    second.note("copy", [kept, torch.empty(16)], [1])
    assert second.kernel_of(X.exp()) == ("copy", False)
    # And what others have written to it since is theirs.
    workspace.copy_(X.cos())
    third = Given([X], left)
    third.note("part", [X, workspace], [1])
    assert third.kernel_of(X.cos()) == ("part", False)


def test_new_tensors_lie_where_freed_ones_lay() -> None:
    candidate = Candidate("file.py:name", 1)
    request = {"arguments": {"x": image_of(X)}}
    candidate._held = candidate._arguments(request)
    old = candidate._held["x"]
    address, version, kept = old.data_ptr(), old._version, old.untyped_storage()
    del old
    values = {"arguments": {"x": image_of(X + 1)}, "reuse": "address"}
    new = candidate._arguments(values)["x"]
    assert (new.data_ptr(), new._version) == (address, version)
    assert new.equal(X + 1)
    # Whoever still has the old one keeps its memory.
    mine = candidate._held["x"]
    assert candidate._arguments(values)["x"].data_ptr() != mine.data_ptr()
    assert kept.data_ptr() == address


def test_values_put_into_a_tensor_count_as_a_version() -> None:
    tensor = tensor_of(image_of(X))
    before = tensor._version
    put_values(tensor, image_of(X + 1))
    assert tensor._version > before
    assert tensor.equal(X + 1)
    before = tensor._version
    put_values(tensor, image_of(X + 1))
    assert tensor._version == before


def test_grids_that_no_gpu_takes() -> None:
    assert _too_large((70_000, 1, 1)) == ""
    assert (
        _too_large((1, 70_000)) == "launches 70,000 programs along y, of which CUDA allows 65,535"
    )


def test_looking_at_a_workspace_is_no_read_of_the_program() -> None:
    """Two workspaces of one size: the second is unwritten when the first was written."""

    def findings(given: Given) -> list[str]:
        with sanitize() as run:
            first, second = torch.empty(16), torch.empty(16)
            for one, other in ((X, first), (first, second)):
                given.note("copy", [one, other], [1])
                copy_kernel[(1,)](one, other, N=16)
        return [each.kind for each in run.session.findings]

    assert findings(Given([X])) == []
    assert findings(Given([X], read=raw_bytes)) == ["unwritten_output"]


@pytest.mark.parametrize(
    "view", [X, X[3:], X.reshape(4, 4).t(), X[:1].expand(5), X.bool(), X[:0], X.reshape(4, 4)[1, 2]]
)
def test_memory_holds_the_elements_in_order(view: torch.Tensor) -> None:
    assert memory_bytes(view) == raw_bytes(view)
