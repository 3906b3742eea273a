"""Tests of the device map with scripts that use CUDA devices: devices, memory and restoration."""

from __future__ import annotations

import copy
import importlib
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
import torch.utils.data
from tests.forked_python import PYTHON

from ttools.core.device_map.mapping import is_active, map_devices, real_device, reported_device
from ttools.core.errors import UsageError

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
CUDA = torch.device("cuda", 0)


FACTORIES: dict[str, Callable[[Any], torch.Tensor]] = {
    "empty": lambda d: torch.empty(3, device=d),
    "empty_strided": lambda d: torch.empty_strided((2, 2), (1, 2), device=d),
    "zeros": lambda d: torch.zeros(3, device=d),
    "ones": lambda d: torch.ones(3, device=d, requires_grad=True),
    "full": lambda d: torch.full((3,), 2.0, device=d),
    "arange": lambda d: torch.arange(3, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 3, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "rand": lambda d: torch.rand(3, device=d),
    "randn": lambda d: torch.randn((3,), device=d, dtype=torch.float16),
    "randint": lambda d: torch.randint(0, 4, (3,), device=d),
    "randperm": lambda d: torch.randperm(3, device=d),
    "tensor": lambda d: torch.tensor([1, 2], device=d),
    "as_tensor": lambda d: torch.as_tensor([1, 2], device=d),
    "asarray": lambda d: torch.asarray([1, 2], device=d),
    "scalar_tensor": lambda d: torch.scalar_tensor(1, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "hann_window": lambda d: torch.hann_window(3, device=d),
    "fftfreq": lambda d: torch.fft.fftfreq(3, device=d),
    "normal": lambda d: torch.normal(0.0, 1.0, (3,), device=d),
    "empty_like": lambda d: torch.empty_like(torch.ones(2), device=d),
    "rand_like": lambda d: torch.rand_like(torch.ones(2), device=d),
    "new_zeros": lambda d: torch.ones(2).new_zeros(3, device=d),
    "new_tensor": lambda d: torch.ones(2).new_tensor([1], device=d),
    "pinned": lambda d: torch.ones(2, pin_memory=True).to(d, non_blocking=True),
    "to": lambda d: torch.ones(2).to(d),
    "to device=": lambda d: torch.ones(2).to(device=d, dtype=torch.float16),
    "to with dtype": lambda d: torch.ones(2).to(d, torch.float64, True),
    "cuda": lambda d: torch.ones(2).cuda(d),
    "to other": lambda d: torch.ones(2).to(torch.zeros(1, device=d)),
    "sparse": lambda d: torch.sparse_coo_tensor(
        torch.tensor([[0]]), [1.0], (2,), device=d
    ).to_dense(),
    "module": lambda d: torch.nn.Linear(2, 2, device=d).weight,
    "module.to": lambda d: torch.nn.Linear(2, 2).to(d).weight,
    "generator": lambda d: torch.rand(2, device=d, generator=torch.Generator(device=d)),
}
DEVICES: dict[str, Callable[[], Any]] = {
    "cuda": lambda: "cuda",
    "cuda:0": lambda: "cuda:0",
    "object": lambda: torch.device("cuda"),
    "number": lambda: torch.cuda.current_device(),
    "reported": reported_device,
}


@pytest.mark.usefixtures("mapped")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("factory", FACTORIES)
def test_every_way_to_create_a_tensor(factory: str, device: str) -> None:
    tensor = FACTORIES[factory](DEVICES[device]())
    assert tensor.is_cuda
    assert tensor.device == CUDA
    assert tensor.get_device() == 0
    assert real_device(tensor) == torch.device("cpu")
    assert "device='cuda:0'" in repr(tensor)


def test_the_first_use_is_reported() -> None:
    uses: list[int] = []
    with map_devices({"cuda": "cpu"}, on_first_use=lambda: uses.append(1)):
        x = torch.ones(2)
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 1
        torch.manual_seed(0)
        assert not x.is_cuda
        assert x.device == torch.device("cpu")
        assert x.cpu() is x
        assert not uses
        torch.cuda.synchronize()
        torch.ones(2, device="cuda")
        assert uses == [1]
        assert not x.is_cuda


@pytest.mark.usefixtures("mapped")
def test_moving_to_another_device_copies() -> None:
    host = torch.zeros(4)
    result = host * 1
    moved = [host.cuda(), host.to("cuda"), torch.as_tensor(host, device="cuda"), result.cuda()]
    for tensor in moved:
        tensor += 1
    assert host.sum() == result.sum() == 0
    device = moved[0]
    for same in (device.cuda(), device.to("cuda"), device.to(CUDA), device.to(torch.float32)):
        assert same is device
    assert device[1:].cuda().data_ptr() == device[1:].data_ptr()
    back = device.cpu()
    back += 1
    assert device.sum() == 4
    assert back.cpu() is back
    assert back.to("cpu") is back
    array = torch.as_tensor(host.numpy(), device="cuda")
    array += 1
    assert host.sum() == 0


@pytest.mark.usefixtures("mapped")
def test_strides_survive_a_move() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    assert x.T.cuda().stride() == (1, 4)
    assert torch.equal(x.cuda()[:, ::2].cpu(), x[:, ::2])


@pytest.mark.usefixtures("mapped")
def test_default_devices() -> None:
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda
    torch.set_default_device("cuda:0")
    try:
        assert torch.ones(2).is_cuda
    finally:
        torch.set_default_device(None)
    with torch.device("meta"):
        assert torch.ones(2).is_meta


@pytest.mark.usefixtures("mapped")
def test_functions_that_generated_code_uses() -> None:
    from torch._C import _cuda_getCurrentRawStream as get_raw_stream
    from torch._C._dynamo.guards import (  # type: ignore[attr-defined]
        _empty_strided_cuda as empty_strided_cuda,
    )

    with torch.cuda._DeviceGuard(0):
        x = empty_strided_cuda((2, 3), (1, 2), torch.float16)
        assert get_raw_stream(0) == torch.cuda.current_stream().cuda_stream
    assert (x.is_cuda, x.shape, x.stride(), x.dtype) == (True, (2, 3), (1, 2), torch.float16)


@pytest.mark.usefixtures("mapped")
def test_events_streams_and_contexts() -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.cuda.device(0), torch.cuda.nvtx.range("x"):
        start.record()
        stream.wait_stream(torch.cuda.current_stream())
        end.record(stream)
    torch.cuda.synchronize()
    assert start.query()
    assert start.elapsed_time(end) >= 0
    assert isinstance(stream, torch.cuda.Stream)
    assert stream.record_event().query()
    with pytest.raises(ValueError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)


@pytest.mark.usefixtures("mapped")
def test_properties_and_memory() -> None:
    properties = torch.cuda.get_device_properties("cuda")
    assert properties.multi_processor_count > 0
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability()
    assert properties.name == torch.cuda.get_device_name(0)
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == properties.total_memory
    assert 0 < torch.cuda.memory_allocated() <= torch.cuda.max_memory_allocated()
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] > 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.is_bf16_supported()
    assert torch.version.cuda
    assert torch.accelerator.current_accelerator().type == "cuda"
    torch.accelerator.empty_cache()
    begin, end = (torch.Event("cuda", enable_timing=True) for _ in range(2))
    begin.record()
    end.record()
    assert begin.elapsed_time(end) >= 0
    assert torch.accelerator.memory_allocated() <= torch.accelerator.max_memory_allocated()
    assert len(torch.accelerator.get_memory_info()) == 2


@pytest.mark.usefixtures("mapped")
def test_random_state_is_restored() -> None:
    torch.cuda.manual_seed_all(3)
    state = torch.cuda.get_rng_state()
    first = torch.rand(4, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.rand(4, device="cuda"))
    torch.manual_seed(3)
    assert torch.equal(first, torch.rand(4, device="cuda"))
    with torch.random.fork_rng():
        torch.rand(1)
    assert isinstance(torch.default_generator, torch.Generator)
    assert isinstance(torch.Generator("cuda").manual_seed(1), torch.Generator)


@pytest.mark.usefixtures("mapped")
def test_mixed_precision() -> None:
    x = torch.ones(2, 2, device="cuda")
    for context in (torch.autocast("cuda"), torch.amp.autocast(device_type="cuda")):
        with context:
            assert (x @ x).dtype is torch.float16
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.bfloat16
    with torch.autocast("cpu"):
        assert (x @ x).dtype is torch.float32
        assert (x.cpu() @ x.cpu()).dtype is torch.bfloat16
    scaler = torch.amp.GradScaler("cuda")
    weight = torch.nn.Parameter(x.clone())
    optimizer = torch.optim.AdamW([weight])
    scaler.scale((weight * 2).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(weight, x)


@pytest.mark.usefixtures("mapped")
@pytest.mark.filterwarnings("ignore:.*autocast_gpu_dtype:DeprecationWarning")
def test_autocast_without_a_device() -> None:
    assert not torch.is_autocast_enabled()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled()
        assert torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_gpu_dtype() is torch.bfloat16
        with torch.autocast("cuda", enabled=False):
            assert not torch.is_autocast_enabled()
    try:
        torch.set_autocast_enabled(True)
        assert torch.is_autocast_enabled("cuda")
    finally:
        torch.set_autocast_enabled(False)
    assert not torch.is_autocast_enabled()


@pytest.mark.usefixtures("mapped")
def test_backward_and_threads() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            assert x.is_cuda
            assert gradient.device == x.device
            return gradient * torch.full_like(x, 2) + torch.zeros(3, device="cuda")

    x = torch.rand(3, device="cuda", requires_grad=True)
    loss = torch.utils.checkpoint.checkpoint(Double.apply, x, use_reentrant=False).sum()
    on_device: list[bool] = []
    thread = threading.Thread(
        target=lambda: (loss.backward(), on_device.append(torch.ones(2, device="cuda").is_cuda))
    )
    thread.start()
    thread.join()
    assert on_device == [True]
    torch.testing.assert_close(x.grad, torch.full((3,), 2.0, device="cuda"))


@pytest.mark.usefixtures("mapped")
def test_modules_move_between_devices() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).cuda().half()
    clone = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    clone.load_state_dict(torch.load(file, map_location="cuda"))
    x = torch.randn(2, 4, device="cuda", dtype=torch.float16)
    assert torch.equal(clone(x), model(x))
    assert next(clone.parameters()).is_cuda
    assert torch.compile(model)(x).shape == x.shape


@pytest.mark.usefixtures("mapped")
def test_half_precision_references_accumulate_in_float32() -> None:
    torch.manual_seed(0)
    x = torch.randn(1151, 64, device="cuda", dtype=torch.float16)
    weight, bias = (torch.rand(64, device="cuda", dtype=torch.float16) for _ in range(2))
    bias.requires_grad_()
    gradient = torch.randn_like(x) * 0.1
    torch.nn.functional.layer_norm(x, (64,), weight, bias).backward(gradient)
    exact = gradient.double().sum(0)
    assert (bias.grad.double() - exact).abs().max() < 5e-3


@pytest.mark.usefixtures("mapped")
def test_products_with_another_type_than_their_operands() -> None:
    torch.manual_seed(0)
    a, b, c = (torch.randn(3, n, m, device="cuda").half() for n, m in ((4, 5), (5, 6), (4, 6)))
    wide = a.float() @ b.float()
    assert torch.equal(torch.bmm(a, b, out_dtype=torch.float32), wide)
    assert torch.equal(torch.mm(a[0], b[0], torch.float32), wide[0])
    added = torch.baddbmm(c, a, b, out_dtype=torch.float32, beta=2, alpha=3)
    assert torch.allclose(added, 2 * c.float() + 3 * wide)
    total = torch.ones(4, 6, device="cuda")
    torch.addmm(total, a[0], b[0], out_dtype=torch.float32, out=total)
    assert torch.allclose(total, 1 + wide[0])
    assert torch.mm(a[0], b[0]).dtype is torch.float16


@pytest.mark.usefixtures("mapped")
def test_legacy_types() -> None:
    cuda: Any = torch.cuda
    assert cuda.FloatTensor(3).dtype is torch.float32
    assert torch.ones(2).type("torch.cuda.HalfTensor").dtype is torch.float16
    assert torch.ones(2).type(torch.int32).dtype is torch.int32


# --- begin and end of a map --------------------------------------------------------------------


def snapshot() -> dict[tuple[Any, str], Any]:
    context = importlib.import_module("torch.utils._device").DeviceContext
    owners: tuple[Any, ...] = (torch, torch.Tensor, torch.cuda, torch.cuda.memory)
    owners += (
        torch.cuda.random,
        torch.version,
        torch.cuda.nvtx,
        torch.accelerator,
        torch.amp.autocast,
        context,
    )
    owners += (torch.nn.functional, torch.fft)
    return {(owner, name): value for owner in owners for name, value in vars(owner).items()}


def test_all_attributes_are_restored() -> None:
    before = snapshot()
    with map_devices({"cuda": "cpu"}), map_devices({"cuda": "cpu"}):
        assert is_active()
        x = torch.ones(2, device="cuda")
    assert not is_active()
    after = snapshot()
    changed = {key for key in {*before, *after} if before.get(key) is not after.get(key)}
    assert not {name for _, name in changed}
    assert (x + x).cpu().tolist() == [2, 2]
    assert not torch.cuda.is_available()
    if torch.version.cuda is None:
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            torch.ones(2, device="cuda")


def test_an_exception_ends_the_map() -> None:
    with pytest.raises(KeyError), map_devices({"cuda": "cpu"}):
        raise KeyError
    assert not is_active()


def test_ending_an_inner_map_keeps_the_outer_one() -> None:
    with map_devices({"cuda": "cpu"}):
        with map_devices({"cuda": "cpu"}):
            pass
        assert torch.ones(2, device="cuda").is_cuda


def test_different_nested_maps_are_rejected() -> None:
    with pytest.raises(UsageError, match="`xpu=cpu` is not supported"), map_devices({"xpu": "cpu"}):
        pass
    with map_devices({}):
        assert not is_active()


def test_torch_can_be_imported_later() -> None:
    code = """
import importlib.util, sys
from ttools.core.device_map.mapping import map_devices
with map_devices({"cuda": "cpu"}):
    assert "torch" not in sys.modules
    finders = len(sys.meta_path)
    assert importlib.util.find_spec("torch")  # libraries check for torch like this
    import torch
    assert torch.ones(2, device="cuda").is_cuda
    assert type(torch.__spec__.loader).__name__ == "SourceFileLoader"
    assert "exec_module" not in vars(torch.__spec__.loader)
assert not torch.cuda.is_available()
with map_devices({"cuda": "cpu"}):
    pass
assert not [f for f in sys.meta_path if "ttools" in type(f).__module__]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.usefixtures("mapped")
def test_data_loaders() -> None:
    torch.ones(1, device="cuda")
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=1)
    batches = [batch.cuda(non_blocking=True) for (batch,) in loader]
    assert torch.equal(torch.cat(batches).cpu(), torch.arange(8.0))
    assert all(batch.is_cuda for batch in batches)


def test_gpu_libraries_are_disabled_during_a_map() -> None:
    before = torch.backends.cudnn.enabled
    for _ in range(2):
        with map_devices({"cuda": "cpu"}), map_devices({"cuda": "cpu"}):
            assert not torch.backends.cudnn.enabled
            lstm = torch.nn.LSTM(3, 3).cuda()
            assert lstm(torch.ones(1, 2, 3, device="cuda"))[0].is_cuda
        assert torch.backends.cudnn.enabled == before


_BACKWARD = """
import torch
from ttools.core.device_map.mapping import map_devices

def gradient(device):
    x = torch.ones(3, device=device, requires_grad=True)
    (x * 2).sum().backward()
    return x.grad.tolist()

print(gradient("cpu"))
with map_devices({"cuda": "cpu"}):
    print(gradient("cuda"), gradient("cpu"))
with map_devices({"cuda": "cpu"}):
    print(gradient("cuda"))
"""


def test_a_backward_pass_before_the_map() -> None:
    # torch's autograd engine counts the devices at its first backward pass.
    completed = PYTHON.run(["-c", _BACKWARD])
    assert completed.stdout.split() == ["[2.0,", "2.0,", "2.0]"] * 4, completed.stderr
