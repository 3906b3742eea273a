"""Tuning rules as a JSON document, and the heuristics that apply them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ttools.core.errors import UsageError
from ttools.core.json_document import read_json_document
from ttools.tuner.rules.features import facts_of_arguments
from ttools.tuner.rules.synthesis import KernelRules, Leaf, Split, Tree

SCHEMA = "ttools.tuning-rules/1"


@dataclass(frozen=True)
class _RulesFile:
    rules: list[KernelRules]


def rules_text(rules: Sequence[KernelRules]) -> str:
    """Return the rules as a JSON document."""
    rows = msgspec.to_builtins(list(rules))
    return json.dumps({"schema": SCHEMA, "rules": rows}, indent=2) + "\n"


def read_rules(path: Path) -> dict[str, KernelRules]:
    """Read rules from a file, by kernel.

    Raises:
        UsageError: The file does not exist, or contains no rules.
    """
    document = read_json_document(path, SCHEMA, "file of rules", _RulesFile, hook=read_tree)
    return {rules.kernel: rules for rules in document.rules}


def read_tree(kind: type, data: Any) -> Tree:
    """Convert a tree from a document, in which a node's fields determine its type.

    Raises:
        ValueError: The data does not describe a tree.
    """
    assert kind is Tree
    is_leaf = isinstance(data, dict) and "config" in data
    try:
        return msgspec.convert(data, Leaf if is_leaf else Split, dec_hook=read_tree)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # msgspec prepends the path to ValueErrors only


def heuristics_of(path: Path, kernel: str) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Return the argument of `triton.heuristics` that a file of rules defines for a kernel.

    Raises:
        UsageError: The file cannot be used, or has no rules for the kernel.
    """
    rules_by_kernel = read_rules(path)
    if kernel not in rules_by_kernel:
        raise UsageError(
            f"`{path}` has no rules for `{kernel}`, only for {', '.join(rules_by_kernel)}"
        )
    rules = rules_by_kernel[kernel]

    def value(name: str) -> Callable[[dict[str, Any]], Any]:
        return lambda arguments: rules.choose(
            facts_of_arguments(arguments, *_device(rules.multiprocessors))
        )[name]

    return {name: value(name) for name in rules.configs[0]}


def _device(multiprocessors: int | None) -> tuple[str, int | None]:
    """Return the GPU's name and multiprocessor count; without a GPU, `cpu` and the given count."""
    import torch

    if not torch.cuda.is_available():
        return "cpu", multiprocessors
    current = torch.cuda.current_device()
    count = torch.cuda.get_device_properties(current).multi_processor_count
    return torch.cuda.get_device_name(current), int(count)
