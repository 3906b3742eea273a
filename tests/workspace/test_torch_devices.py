"""Every call in the packages that creates a tensor names its device.

Scripts may change torch's default device.
"""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from tests.source_trees import SOURCES, nodes
from torch.utils import _device

ROOT = Path(__file__).parents[2]
#: Functions of torch that create tensors on the default device.
FACTORIES = frozenset(
    f.__name__
    for f in _device._device_constructors()  # type: ignore[no-untyped-call]
    if getattr(torch, f.__name__, None) is f
)


def unplaced(node: ast.AST) -> str | None:
    """Return the name of the function if a call creates a tensor on the default device."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name, owner = node.func.attr, node.func.value
    of_torch = isinstance(owner, ast.Name) and owner.id.endswith("torch")
    placed = "device" in {k.arg for k in node.keywords}
    return name if of_torch and name in FACTORIES and not placed else None


def test_the_search_finds_them() -> None:
    assert {"empty", "zeros", "tensor", "as_tensor", "arange", "rand"} <= FACTORIES
    text = "torch.empty(3)\ntorch.empty(3, device='cpu')\nx = self._torch.tensor([1])\n"
    assert [name for node in ast.walk(ast.parse(text)) if (name := unplaced(node))] == ["empty"]
    assert unplaced(ast.parse("_torch.tensor([1])", mode="eval").body) == "tensor"


def test_no_tensor_is_made_on_the_default_device() -> None:
    assert len(SOURCES) > 300
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno}: torch.{name}"
        for path, node in nodes(f"torch.{name}" for name in FACTORIES)
        if isinstance(node, ast.Call) and (name := unplaced(node))
    ]
    assert not places, "these calls name no device:\n" + "\n".join(places)


def test_torch_is_not_hidden_behind_another_name() -> None:
    for path, node in nodes(("import torch", "from torch")):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            assert not FACTORIES & {alias.name for alias in node.names}, path
        elif isinstance(node, ast.Import):
            assert all(
                alias.asname is None or alias.asname.endswith("torch")
                for alias in node.names
                if alias.name == "torch"
            ), path
