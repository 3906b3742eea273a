"""Every tensor that the packages make names its device: scripts change torch's default."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from tests.source_trees import SOURCES, nodes
from torch.utils import _device

ROOT = Path(__file__).parents[2]
#: What torch itself makes on its default device.
FACTORIES = frozenset(
    f.__name__
    for f in _device._device_constructors()  # type: ignore[no-untyped-call]
    if getattr(torch, f.__name__, None) is f
)


def unplaced(node: ast.AST) -> str | None:
    """The function by which a call makes a tensor where torch's default says."""
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
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: torch.{name}"
        for path, node in nodes(f"torch.{name}" for name in FACTORIES)
        if isinstance(node, ast.Call) and (name := unplaced(node))
    ]
    assert not found, "these name no device:\n" + "\n".join(found)


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
