"""Tests of tracing, function transforms and custom operators on tensors of a mapped device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU"),
    pytest.mark.usefixtures("mapped"),
]
CUDA = torch.device("cuda", 0)


def branch(a: torch.Tensor) -> torch.Tensor:
    return torch.where(a > 0, a, 0.0) + torch.full([4], 1.0, device=a.device)


def test_fake_tensors_are_on_the_device() -> None:
    real = torch.randn(4, device="cuda")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x = mode.from_tensor(real)
        empty = torch.empty(4, device="cuda")
        results = [torch.full_like(x, 1.0), torch.where(x > 0, x, 0.0), x.exp(), torch.outer(x, x)]
        assert {tensor.device for tensor in (x, empty, *results)} == {CUDA}
        assert type(x + real) is type(x)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode: Any) -> None:
    x = torch.randn(4, device="cuda", requires_grad=True)
    graph = make_fx(branch, tracing_mode=mode)(x)
    assert torch.equal(graph(x), branch(x))
    devices = {node.kwargs["device"] for node in graph.graph.nodes if "device" in node.kwargs}
    assert devices == {CUDA}


def test_ahead_of_time_autograd() -> None:
    x = torch.randn(4, device="cuda", requires_grad=True)
    # The import takes seconds, which all processes that share the tests would spend.
    from torch._functorch.aot_autograd import aot_function

    compiled = aot_function(branch, fw_compiler=lambda graph, _: graph)  # type: ignore[no-untyped-call]
    compiled(x).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, (x > 0).float())


def test_transforms() -> None:
    def cube(a: torch.Tensor) -> torch.Tensor:
        return (a**3).sum()

    x = torch.rand(3, device="cuda")
    assert torch.allclose(torch.func.grad(cube)(x), 3 * x * x)
    assert torch.allclose(torch.func.hessian(cube)(x), torch.diag(6 * x))
    assert torch.allclose(torch.func.vmap(torch.func.grad(cube))(x[:, None])[:, 0], 3 * x * x)
    assert torch.allclose(torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1], x.cos())
    assert torch.func.jacrev(torch.sin)(x).is_cuda
    assert torch.autograd.gradcheck(torch.nn.functional.gelu, (x.double().requires_grad_(),))


def test_operators_for_cuda_only() -> None:
    @torch.library.custom_op("ttools_test::twice", mutates_args=(), device_types="cuda")
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    library = torch.library.Library("ttools_test_2", "DEF")  # type: ignore[no-untyped-call]
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", lambda x: x * 3, "CUDA")  # type: ignore[no-untyped-call]
    x = torch.ones(4, device="cuda")
    assert twice(x).tolist() == [2] * 4
    assert twice(x).is_cuda
    assert torch.ops.ttools_test_2.thrice(x).tolist() == [3] * 4
    with pytest.raises(NotImplementedError):
        twice(x.cpu())


def test_third_party_operators_for_the_cpu() -> None:
    """Check that operators of other libraries get CPU tensors that share the memory."""
    library = torch.library.Library("ttools_test_3", "DEF")  # type: ignore[no-untyped-call]
    library.define("double_(Tensor(a!) x, Tensor[] tensors) -> Tensor(a!)")
    devices: list[str] = []

    def double(x: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
        devices.extend(tensor.device.type for tensor in (x, *tensors))
        return x.mul_(2)

    library.impl("double_", double, "CPU")  # type: ignore[no-untyped-call]
    x = torch.ones(4, device="cuda")
    assert torch.ops.ttools_test_3.double_(x, [x, x[1:]]) is x
    assert x.tolist() == [2] * 4
    assert devices == ["cpu"] * 3


def test_dispatch_modes_see_the_calls_of_the_script() -> None:
    calls: list[str] = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.ones(3, device="cuda")
    with Log():
        (x * 2).sum()
    assert calls == ["aten.mul.Tensor", "aten.sum.default"]


def test_traced_and_exported_modules() -> None:
    linear, x = torch.nn.Linear(4, 2, device="cuda"), torch.rand(3, 4, device="cuda")
    exported = torch.export.export(linear, (x,)).module()
    assert torch.equal(exported(x), linear(x))
