"""Tests of tensors of a mapped device: moving, copying, saving, random numbers and protocols."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.utils.dlpack

from ttools.core.device_map.tensors import _decoded

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU"),
    pytest.mark.usefixtures("mapped"),
]


def test_moving_to_the_same_device_returns_the_tensor() -> None:
    """Check identity: the gradient of `x.to("cuda").requires_grad_()` must belong to `x`."""
    c = torch.randn(3, 4).to("cuda")
    d = torch.rand(2, 4, device="cuda", dtype=torch.float16)
    normal = torch.nn.functional.normalize(d, dim=-1, p=2)
    steps = [c, d, normal, normal[:, None] * 2, normal.detach(), normal.clone().float(), c[1:]]
    for x in steps:
        assert x.to("cuda") is x
        assert x.cuda() is x
        assert x.to(x.device) is x
        assert x.to(torch.zeros(1, device="cuda", dtype=x.dtype)) is x
    leaf = c.clone().requires_grad_()
    (leaf.to("cuda") * 2).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [[2] * 4] * 3


def test_predicates_and_types() -> None:
    x = torch.ones(2, device="cuda")
    assert (x.is_cuda, x.is_cpu, x.get_device(), x.device.index) == (True, False, 0, 0)
    assert (x.type(), x.half().type()) == ("torch.cuda.FloatTensor", "torch.cuda.HalfTensor")
    cuda: Any = torch.cuda
    assert isinstance(x, cuda.FloatTensor)
    assert not isinstance(x.cpu(), cuda.FloatTensor)
    assert (x > 0).sum().is_cuda
    assert torch.result_type(x, 1) is torch.float32


def test_storages() -> None:
    x = torch.arange(6.0, device="cuda")
    view = x.view(2, 3)[1:]
    assert view._base is x
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()
    assert x.untyped_storage().device == x.storage().device == x.device
    assert x.storage().tolist() == [0, 1, 2, 3, 4, 5]
    view += 1
    assert x.tolist() == [0, 1, 2, 4, 5, 6]
    copied = x.untyped_storage().cpu()
    assert (copied.device.type, copied.nbytes()) == ("cpu", 24)
    assert torch.UntypedStorage(4, device="cuda").is_cuda
    other = torch.tensor([], device="cuda").set_(x.untyped_storage())
    assert other.data_ptr() == x.data_ptr()
    host = torch.ones(3)
    host.data = x
    assert host.device == x.device


def test_copies_and_pickles() -> None:
    x = torch.arange(4.0, device="cuda", requires_grad=True)
    linear = torch.nn.Linear(2, 2).cuda()
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert copied.is_cuda
        assert copied.requires_grad
        assert copied.data_ptr() != x.data_ptr()
        assert torch.equal(copied, x)
    assert copy.deepcopy(linear).weight.is_cuda
    shared = x.detach()
    first, second = copy.deepcopy([shared, shared[1:]])
    first[1] = 9
    assert second[0] == 9


@pytest.mark.parametrize(
    ("location", "devices"),
    [
        (None, ("cuda", "cpu")),
        ("cpu", ("cpu", "cpu")),
        ("cuda", ("cuda", "cuda")),
        ("cuda:0", ("cuda", "cuda")),
        (torch.device("cuda"), ("cuda", "cuda")),
        ({"cuda:0": "cpu"}, ("cpu", "cpu")),
        (lambda storage, name: storage, ("cpu", "cpu")),
    ],
)
def test_files_contain_the_devices_of_tensors(location: Any, devices: tuple[str, str]) -> None:
    x = torch.ones(3, device="cuda")
    file = io.BytesIO()
    torch.save({"x": x, "view": x[1:], "host": torch.ones(2)}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=location)
    assert (loaded["x"].device.type, loaded["host"].device.type) == devices
    loaded["x"][1] = 5
    assert loaded["view"][0] == 5


def test_files_from_runs_without_a_map(tmp_path: Path) -> None:
    torch.save(torch.ones(2, device="cuda"), tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", mmap=True).is_cuda


def test_modules_and_optimizers() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.data = parameter.data.cuda()
    assert parameter.is_leaf
    assert parameter.is_cuda
    for fused in (False, True):
        optimizer = torch.optim.AdamW([parameter], fused=fused)
        (parameter * 2).sum().backward()
        optimizer.step()
    assert torch.nn.LazyLinear(2, device="cuda")(torch.ones(1, 3, device="cuda")).is_cuda
    empty = torch.nn.Linear(2, 2, device="meta").to_empty(device="cuda")
    assert empty.weight.is_cuda


def test_generators_draw_the_same_numbers_as_on_the_cpu() -> None:
    def draw(device: str) -> list[list[float]]:
        generator = torch.Generator(device).manual_seed(3)
        torch.manual_seed(4)
        drawn = [torch.rand(3, device=device, generator=generator), torch.rand(3, device=device)]
        drawn.append(torch.randn(3, device=device))
        drawn.append(torch.nn.functional.dropout(torch.ones(8, device=device)))
        drawn.append(torch.randperm(5, device=device, generator=generator).float())
        return [numbers.tolist() for numbers in drawn]

    assert draw("cuda") == draw("cpu")
    assert torch.Generator("cuda").device == torch.device("cuda", 0)


def test_the_state_of_a_generator_is_a_seed_and_an_offset() -> None:
    def state(generator: Any) -> list[int]:
        values: list[int] = generator.get_state().view(torch.int64).tolist()
        return values

    generator = torch.Generator("cuda").manual_seed(3)
    assert state(generator) == state(generator) == [3, 0]
    torch.rand(2, device="cuda", generator=generator)
    assert state(generator) == state(generator) == [3, 4]
    saved = generator.get_state()
    drawn = torch.rand(2, device="cuda", generator=generator)
    assert state(generator) == [3, 8]
    assert generator.initial_seed() == 3
    elsewhere = torch.Generator("cuda")
    elsewhere.set_state(saved)
    assert torch.equal(torch.rand(2, device="cuda", generator=elsewhere.clone_state()), drawn)
    elsewhere.set_offset(0)
    assert state(elsewhere) == state(generator.manual_seed(3)) == [3, 0]
    assert elsewhere.get_offset() == 0
    # Libraries whose kernels draw random numbers set the state like this.
    own = torch.cuda.default_generators[0]
    own.set_state(torch.tensor([5, 12]).view(torch.uint8))
    assert state(own) == [5, 12]


@pytest.mark.parametrize(
    "draw",
    [
        lambda device: torch.rand(4, device=device),
        lambda device: torch.nn.functional.dropout(torch.ones(64, device=device)),
        lambda device: torch.randint(0, 99, (4,), device=device),
        lambda device: torch.rand_like(torch.ones(4, device=device)),
        lambda device: torch.randperm(9, device=device),
        lambda device: torch.empty(4, device=device).exponential_(),
    ],
)
def test_the_device_has_a_separate_generator(draw: Callable[[str], Any]) -> None:
    torch.manual_seed(7)
    first = draw("cuda")
    torch.manual_seed(7)
    on_cpu = draw("cpu")
    assert torch.equal(first, draw("cuda"))
    torch.manual_seed(7)
    assert torch.equal(on_cpu, draw("cpu"))
    torch.cuda.manual_seed(7)
    with torch.random.fork_rng():
        draw("cpu")
        draw("cuda")
    assert torch.equal(first, draw("cuda"))


def test_storages_grow_for_larger_tensors() -> None:
    x: Any = torch.arange(3.0, device="cuda")
    assert x.set_(x.untyped_storage(), 1, (2, 3)).shape == (2, 3)
    assert x.flatten()[:2].tolist() == [1, 2]
    empty: Any = torch.empty(0, device="cuda")
    assert empty.set_(empty.untyped_storage(), 0, (4,)).fill_(2).tolist() == [2] * 4


def test_pinned_memory() -> None:
    x = torch.ones(2).pin_memory()
    assert x.is_pinned()
    assert x.is_cpu
    assert not torch.ones(2).is_pinned()
    assert torch.ones(2, pin_memory=True).cuda(non_blocking=True).is_cuda


def test_other_protocols() -> None:
    x = torch.arange(3.0, device="cuda")
    imported = torch.utils.dlpack.from_dlpack(x)
    assert imported.is_cuda
    assert imported.data_ptr() == x.data_ptr()
    assert x.__cuda_array_interface__["data"][0] == x.data_ptr()
    other = SimpleNamespace(__cuda_array_interface__=x[1:].__cuda_array_interface__)
    converted = torch.as_tensor(other, device="cuda")
    converted += 1
    assert converted.is_cuda
    assert x.tolist() == [0, 2, 3]


def test_profiled_names_that_torch_has_freed() -> None:
    def name(event: object) -> str:
        return b"torch/_ops.py(0): \xb1".decode()

    assert _decoded(name, lambda text: [text])(None) == ["torch/_ops.py(0): \ufffd"]
    x = torch.ones(3, device="cuda")
    with torch.profiler.profile(with_stack=True) as profile:
        x + 1
    assert any("test_tensors.py" in entry.key for entry in profile.key_averages())


def test_the_profiler_records_operators() -> None:
    x = torch.ones(3, device="cuda")
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        x + 1
    assert "aten::add" in {entry.key for entry in profile.key_averages()}
    with torch.profiler.profile(activities=kinds[1:]) as profile:
        x + 1
    profile.key_averages()
