"""Subclasses of `torch.Tensor` are constructed as usual while allocations are watched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ttools.sanitizer import sanitize
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory


class _Tile(torch.Tensor):
    def __init__(self, *args: Any) -> None:
        super().__init__()


class _Dispatching(torch.Tensor):
    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, op: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return NotImplemented


def _constructed(constructed: torch.Tensor) -> object:
    return (
        type(constructed),
        constructed.shape,
        constructed.dtype,
        constructed.is_leaf,
        constructed._is_view(),
        constructed.grad_fn is None,
    )


@pytest.mark.parametrize(
    "construct",
    [
        lambda: _Tile(),
        lambda: _Tile(3),
        lambda: _Tile(2, 3),
        lambda: _Tile([1.0, 2.0]),
        lambda: _Tile(torch.ones(3)),
        lambda: _Tile(torch.ones(3, requires_grad=True)),
        lambda: _Tile(_Tile(3)),
        pytest.param(
            lambda: torch.Tensor.__new__(_Tile, 3),
            marks=pytest.mark.xfail(strict=True, reason="torch's own constructor is not replaced"),
        ),
        lambda: _Dispatching(3),
        lambda: torch.Tensor(3),
        lambda: torch.Tensor(_Tile(3)),
        lambda: torch.FloatTensor(3),
    ],
)
def test_constructed_tensors_are_the_same(construct: Callable[[], torch.Tensor]) -> None:
    before = _constructed(construct())
    with UninitialisedMemory():
        assert _constructed(construct()) == before
    assert _constructed(construct()) == before


def test_constructors_raise_the_same_errors() -> None:
    def message() -> str:
        with pytest.raises(TypeError) as caught:
            _Tile("no size")  # type: ignore[arg-type]
        return str(caught.value)

    before = message()
    with UninitialisedMemory():
        assert message() == before


def test_subclasses_defined_while_allocations_are_watched() -> None:
    with UninitialisedMemory():

        class Later(_Tile):
            extent: int

            def __init_subclass__(cls, extent: int = 0) -> None:
                cls.extent = extent

        class Last(Later, extent=3):
            pass

        assert type(Later(2)) is Later
        assert Last(Last.extent).shape == (3,)
    assert type(Last(2)) is Last
    assert "__new__" not in vars(_Tile) | vars(Last)


class _Own(torch.Tensor):
    def __new__(cls, size: int) -> _Own:
        return torch.ones(size).as_subclass(cls)


def test_constructors_of_the_program_are_kept() -> None:
    own = _Own.__new__
    with UninitialisedMemory():
        assert _Own.__new__ is own
        assert _Own(3).sum() == 3


@pytest.mark.slow
def test_compiled_functions_construct_subclasses() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return _Tile(x) * 2

    # Launches are watched, too; Dynamo is configured not to trace the files of the watch.
    with sanitize(), UninitialisedMemory():
        doubled_tensor = torch.compile(doubled, fullgraph=True, backend="eager")(torch.ones(3))
    assert doubled_tensor.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.slow
def test_dynamo_is_imported_while_allocations_are_watched() -> None:
    """Import Dynamo late, since it finds functions by identity and inspects their signatures."""
    program = (
        "import torch\n"
        "from ttools.sanitizer.memory.uninitialised import UninitialisedMemory\n"
        "with UninitialisedMemory():\n"
        "    import torch._dynamo\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
