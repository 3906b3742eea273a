"""Tests of the device map's Python API: a context, an option of `interpret`, and notebooks."""

from __future__ import annotations

import pytest
import torch

import ttools.interpreter
from ttools.core.device_map.mapping import is_active
from ttools.core.errors import UsageError
from ttools.interpreter import device_map, interpret

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")


def test_the_context() -> None:
    with device_map("cuda=cpu,capability=9.0"):
        x = torch.ones(2, device="cuda")
        assert torch.cuda.get_device_capability() == (9, 0)
    assert not is_active()
    assert repr(x) == "tensor([1., 1.], device='cuda:0')"
    with device_map("off"):
        assert not is_active()
    with pytest.raises(UsageError, match="the device map `cpu` is neither"), device_map("cpu"):
        pass


def test_the_option_of_interpret() -> None:
    run = interpret(device_map="cuda=cpu,sms=7")
    for _ in range(2):
        with run, run:
            assert torch.cuda.get_device_properties(0).multi_processor_count == 7
        assert not is_active()
    with pytest.raises(UsageError, match="sms=0"):
        interpret(device_map="cuda=cpu,sms=0")


def test_notebooks() -> None:
    ttools.interpreter.load_ipython_extension(None)
    try:
        assert torch.ones(2, device="cuda").is_cuda
        ttools.interpreter.load_ipython_extension(None)
    finally:
        ttools.interpreter.unload_ipython_extension(None)
    assert not is_active()


def test_tensors_after_the_end_of_their_map() -> None:
    with device_map():
        x = torch.ones(3, device="cuda", requires_grad=True)
    (x * x.cumsum(0)).sum().backward()
    assert x.grad is not None
    assert x.grad.device == x.device
    assert x.to("cpu").tolist() == [1, 1, 1]
    if torch.version.cuda is None:
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            torch.ones(2).cuda()
    uses: list[int] = []
    from ttools.core.device_map.mapping import map_devices

    with map_devices({"cuda": "cpu"}, on_first_use=lambda: uses.append(1)):
        assert not uses
        assert (x + torch.ones(3, device="cuda")).is_cuda
    assert uses == [1]
