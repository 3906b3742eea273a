"""Tensors with the layout of views have the same values, and poison in the gaps."""

from __future__ import annotations

import pytest
import torch

from ttools.verifier.cases.tensors import CODEC, VIEWS, elements, laid_out, tensor_of
from ttools.verifier.cases.values import KINDS, NARROW, changed, kind_of


@pytest.mark.parametrize("view", [*VIEWS, "contiguous"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 4), (1, 5), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_views_have_the_values(view: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)
    image = laid_out(tensor, view)
    view_tensor = tensor_of(image)
    assert view_tensor.shape == tensor.shape
    assert elements(image).equal(tensor_of(image))
    if view == "expanded":
        axis = next((d for d, n in enumerate(shape) if n > 1), None)
        if axis is not None and tensor.numel():
            assert view_tensor.stride()[axis] == 0
            assert view_tensor.equal(tensor.narrow(axis, 0, 1).expand(shape))
    else:
        assert view_tensor.equal(tensor)


def test_gaps_are_poison() -> None:
    tensor = tensor_of(laid_out(torch.ones(3, 4), "every_other"))
    whole = torch.empty(0).set_(tensor.untyped_storage())
    assert int(whole.isnan().sum()) == 12
    assert tensor_of(laid_out(torch.ones(5), "offset")).storage_offset() == 5
    assert not tensor_of(laid_out(torch.ones(3, 4), "transposed")).is_contiguous()


def test_channels_last_is_a_memory_format_of_torch() -> None:
    for shape, memory_format in (
        ((2, 3, 4, 5), torch.channels_last),
        ((2, 3, 4, 5, 6), torch.channels_last_3d),
    ):
        tensor = tensor_of(laid_out(torch.ones(shape), "channels_last"))
        assert tensor.is_contiguous(memory_format=memory_format)
        assert not tensor.is_contiguous()
    assert tensor_of(laid_out(torch.ones(3, 4), "channels_last")).is_contiguous()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_changed_values_are_valid(kind: str, dtype: torch.dtype) -> None:
    tensor = torch.linspace(-2, 2, 12).to(dtype).reshape(3, 4)
    result = changed(tensor, kind, is_finite=True)
    assert bool(result.isfinite().all())
    assert (result.shape, result.dtype) == (tensor.shape, dtype)
    special = changed(tensor, kind, is_finite=False)
    assert bool(special.isfinite().all()) == (not KINDS[kind].is_special)
    integers = torch.arange(4)
    assert changed(integers, kind, is_finite=False) is integers


@pytest.mark.parametrize("dtype", [*NARROW, torch.complex64, torch.complex128])
def test_complex_numbers_and_floats_of_one_byte_get_special_values(dtype: torch.dtype) -> None:
    drawn = torch.linspace(-2, 2, 24).reshape(3, 8)
    tensor = drawn.view(torch.complex64).to(dtype) if dtype.is_complex else drawn.to(dtype)
    seen = []
    for name, kind in KINDS.items():
        finite, special = (changed(tensor, name, is_finite=flag) for flag in (True, False))
        assert (special.shape, special.dtype) == (tensor.shape, dtype)
        parts = torch.view_as_real(special) if dtype.is_complex else special.float()
        assert bool((finite if dtype.is_complex else finite.float()).isfinite().all())
        assert bool(parts.isfinite().all()) or kind.is_special
        seen += parts.reshape(-1).tolist()
        # Written tests contain the expression and its functions.
        own = kind_of(name, dtype)
        namespace = {"torch": torch}
        for source in own.sources().values():
            exec(source, namespace)
        again = eval(f"(lambda x: {own.expression})(x)", {**namespace, "x": tensor})
        assert again.to(dtype).contiguous().view(torch.uint8).equal(special.view(torch.uint8))
    limits = torch.finfo(dtype)
    assert any(value != value for value in seen)
    has_infinity = dtype in (torch.float8_e5m2, torch.complex64, torch.complex128)
    assert (float("inf") in seen) == (float("-inf") in seen) == has_infinity
    assert (-0.0).hex() in [value.hex() for value in seen] or "fnuz" in str(dtype)
    if dtype in NARROW:
        smallest = torch.tensor([1], dtype=torch.uint8).view(dtype).item()
        assert {limits.max, limits.min, smallest} <= set(seen)


@pytest.mark.parametrize("shape", [(), (2,), (13,), (13, 17), (1, 400)])
def test_permuted_values_look_alike(shape: tuple[int, ...]) -> None:
    """Permute values so that sums, ends and some elements in between do not change."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    permuted = changed(x, "permuted", is_finite=True)
    flat, moved = x.reshape(-1), permuted.reshape(-1)
    assert torch.equal(flat.sort().values, moved.sort().values)
    places = [at * len(flat) // 4 for at in range(4)]
    assert torch.equal(flat[[*places, -1]], moved[[*places, -1]])
    assert len(flat) < 13 or (flat != moved).sum() >= len(flat) // 3


def test_messages_have_no_control_characters() -> None:
    message = {"why": ["no\x1b[2K\rpassed\n", ("café\t", b"\x1b")], "count": 3}
    read = CODEC.decode(CODEC.encode(message))
    assert read == {"why": ["no\ufffd[2K\ufffdpassed\n", ("café\t", b"\x1b")], "count": 3}
