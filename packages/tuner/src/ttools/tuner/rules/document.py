"""Rules as JSON, and as a decorator that reads them.

Owns the schema. Must not know how rules are made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.json_document import ANY, EACH, conform, read_json_document
from ttools.tuner.rules.features import Feature, facts_of_arguments
from ttools.tuner.rules.synthesis import Leaf, Regret, Rules, Split, Tree

SCHEMA = "ttools.tuning-rules/1"


def rules_text(rules: Sequence[Rules]) -> str:
    """The document."""
    rows = [{**asdict(each), "tree": _plain(each.tree)} for each in rules]
    return json.dumps({"schema": SCHEMA, "rules": rows}, indent=2) + "\n"


def _plain(tree: Tree) -> dict[str, Any]:
    if isinstance(tree, Leaf):
        return {"config": tree.config}
    return {
        "feature": asdict(tree.feature),
        "at_most": tree.threshold,
        "yes": _plain(tree.below),
        "no": _plain(tree.above),
    }


_VALUE = (bool, int, float, str, None)
_SPLIT = {
    "feature": {"kind": str, "names": [str], "value": (_VALUE, [float])},
    "at_most": float,
    "yes": ANY,
    "no": ANY,
}
_SHAPE = {
    "rules": [
        {
            "kernel": str,
            "configs": [{EACH: ANY}],
            "tree": ANY,
            "regret": {EACH: (float, None)},
            "devices": [str],
            "tunings": int,
            "multiprocessors?": (int, None),
            "ranges?": {EACH: [float]},
        }
    ]
}


def read_rules(path: Path) -> dict[str, Rules]:
    """Rules of a file, by kernel.

    Raises:
        UsageError: it is not there, or is none.
    """
    data = read_json_document(path, SCHEMA, "file of rules", shape=_SHAPE)
    try:
        return {row["kernel"]: _read(row) for row in data["rules"]}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise UsageError(f"`{path}` is damaged: {error}") from error


def _read(row: dict[str, Any]) -> Rules:
    ranges = {name: (least, most) for name, (least, most) in row.get("ranges", {}).items()}
    known = {"tree": _read_tree(row["tree"]), "regret": Regret(**row["regret"]), "ranges": ranges}
    rules = Rules(**{**row, **known})
    _check(rules.tree, len(rules.configs))
    return rules


def _check(tree: Tree, configs: int) -> None:
    if isinstance(tree, Split):
        _check(tree.below, configs)
        _check(tree.above, configs)
    elif not 0 <= tree.config < configs:
        raise ValueError(f"its tree names configuration {tree.config} of {configs}")


def _read_tree(data: dict[str, Any]) -> Tree:
    if "config" in data:
        return Leaf(int(data["config"]))
    conform(data, _SPLIT, "tree")
    own = data["feature"]
    value = tuple(own["value"]) if isinstance(own["value"], list) else own["value"]
    feature = Feature(own["kind"], tuple(own["names"]), value)
    feature.check()
    return Split(feature, data["at_most"], _read_tree(data["yes"]), _read_tree(data["no"]))


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
