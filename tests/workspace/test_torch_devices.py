"""Every tensor that the packages make names its device: scripts change torch's default."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils import _device

ROOT = Path(__file__).parents[2]
SOURCES = sorted(ROOT.glob("packages/*/src/**/*.py"))
#: What torch itself makes on its default device.
FACTORIES = frozenset(
    f.__name__
    for f in _device._device_constructors()  # type: ignore[no-untyped-call]
    if getattr(torch, f.__name__, None) is f
)


def unplaced(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each call that makes a tensor where torch's default says."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, owner = node.func.attr, node.func.value
        of_torch = isinstance(owner, ast.Name) and owner.id.endswith("torch")
        if of_torch and name in FACTORIES and "device" not in {k.arg for k in node.keywords}:
            yield node.lineno, name


def test_the_search_finds_them() -> None:
    assert {"empty", "zeros", "tensor", "as_tensor", "arange", "rand"} <= FACTORIES
    text = "torch.empty(3)\ntorch.empty(3, device='cpu')\nx = self._torch.tensor([1])\n"
    assert list(unplaced(text)) == [(1, "empty")]
    assert list(unplaced("_torch.tensor([1])")) == [(1, "tensor")]


def test_no_tensor_is_made_on_the_default_device() -> None:
    assert len(SOURCES) > 300
    found = [
        f"{path.relative_to(ROOT)}:{line}: torch.{name}"
        for path in SOURCES
        for line, name in unplaced(path.read_text(encoding="utf-8"))
    ]
    assert not found, "these name no device:\n" + "\n".join(found)


def test_torch_is_not_hidden_behind_another_name() -> None:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
                assert not FACTORIES & {alias.name for alias in node.names}, path
            elif isinstance(node, ast.Import):
                assert all(
                    alias.asname is None or alias.asname.endswith("torch")
                    for alias in node.names
                    if alias.name == "torch"
                ), path
