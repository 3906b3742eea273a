"""Rules as JSON, and as a decorator that reads them.

Owns the schema. Must not know how rules are made.
"""

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
    """The document."""
    rows = msgspec.to_builtins(list(rules))
    return json.dumps({"schema": SCHEMA, "rules": rows}, indent=2) + "\n"


def read_rules(path: Path) -> dict[str, KernelRules]:
    """Rules of a file, by kernel.

    Raises:
        UsageError: it is not there, or is none.
    """
    found = read_json_document(path, SCHEMA, "file of rules", _RulesFile, hook=read_tree)
    return {each.kernel: each for each in found.rules}


def read_tree(kind: type, data: Any) -> Tree:
    """A tree from a document: its fields say which type it is.

    Raises:
        ValueError: it is none.
    """
    assert kind is Tree
    is_leaf = isinstance(data, dict) and "config" in data
    try:
        return msgspec.convert(data, Leaf if is_leaf else Split, dec_hook=read_tree)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # the path to here is added to no other exception


def heuristics_of(path: Path, kernel: str) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """What `triton.heuristics` takes, for a kernel of a file of rules.

    Raises:
        UsageError: the file cannot be used, or has no rules for the kernel.
    """
    known = read_rules(path)
    if kernel not in known:
        raise UsageError(f"`{path}` has no rules for `{kernel}`, only for {', '.join(known)}")
    rules = known[kernel]

    def value(name: str) -> Callable[[dict[str, Any]], Any]:
        return lambda arguments: rules.choose(
            facts_of_arguments(arguments, *_device(rules.multiprocessors))
        )[name]

    return {name: value(name) for name in rules.configs[0]}


def _device(multiprocessors: int | None) -> tuple[str, int | None]:
    """The GPU and its multiprocessors; without one as many as were measured."""
    import torch

    if not torch.cuda.is_available():
        return "cpu", multiprocessors
    current = torch.cuda.current_device()
    count = torch.cuda.get_device_properties(current).multi_processor_count
    return torch.cuda.get_device_name(current), int(count)
