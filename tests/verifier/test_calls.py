"""Tensors of a call at addresses of earlier tensors, and grids that exceed the limits of GPUs."""

from __future__ import annotations

import torch

from ttools.verifier.cases.tensors import image_of, put_values, tensor_of
from ttools.verifier.workers.candidate import Candidate, _too_large

X = torch.arange(1, 17, dtype=torch.float32)


def test_new_tensors_reuse_addresses_of_freed_tensors() -> None:
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
    # An old tensor that is still referenced keeps its memory.
    mine = candidate._held["x"]
    assert candidate._arguments(values)["x"].data_ptr() != mine.data_ptr()
    assert kept.data_ptr() == address


def test_new_values_change_the_version_of_a_tensor() -> None:
    tensor = tensor_of(image_of(X))
    before = tensor._version
    put_values(tensor, image_of(X + 1))
    assert tensor._version > before
    assert tensor.equal(X + 1)
    before = tensor._version
    put_values(tensor, image_of(X + 1))
    assert tensor._version == before


def test_grids_that_no_gpu_accepts() -> None:
    assert _too_large((70_000, 1, 1)) == ""
    assert _too_large((1, 70_000)) == "launches 70,000 programs along y; CUDA allows at most 65,535"
