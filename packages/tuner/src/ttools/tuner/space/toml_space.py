"""Search spaces in TOML: values of parameters, derived parameters and conditions.

[parameters]
BLOCK_M = { powers_of_two = [16, 128] }  # 16, 32, 64, 128
BLOCK_K = { range = [32, 96, 32] }       # 32, 64, 96
GROUP_M = [1, 4, 8]
num_warps = [2, 4, 8]

[derived]
BLOCK_N = "BLOCK_M * 2"

[conditions]
fits = "BLOCK_M * BLOCK_K <= 8192"
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError, file_errors
from ttools.core.json_document import parse_toml
from ttools.core.reports.report import counted
from ttools.tuner.space.expressions import Expression

#: Launch options; all other parameters are parameters of the kernel.
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
#: Spaces with more combinations than this are rejected instead of enumerated.
MOST_COMBINATIONS = 1_000_000
_TABLES = ("parameters", "derived", "conditions")


@dataclass(frozen=True)
class Space:
    """An enumerated space.

    Attributes:
        combinations: Number of combinations of values before conditions are applied.
        configs: The combinations that meet all conditions, as values by name; the last parameter
            varies fastest.
    """

    combinations: int
    configs: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        if self.combinations == len(self.configs):
            return counted(self.combinations, "configuration")
        return f"{len(self.configs):,} of {self.combinations:,} combinations meet the conditions"

    def triton_configs(self) -> list[Any]:
        import triton

        return [
            triton.Config(
                {name: value for name, value in values.items() if name not in OPTIONS},
                **{name: value for name, value in values.items() if name in OPTIONS},
            )
            for values in self.configs
        ]


def load_space(path: Path) -> Space:
    """Read a space from a file.

    Raises:
        UsageError: The file does not exist, is invalid, or leaves no configuration.
    """
    with file_errors(f"read the space `{path}`"):
        raw = path.read_bytes()
    try:
        data = parse_toml(raw.decode("utf-8"))
    except ValueError as error:
        raise UsageError(f"`{path}` is not valid TOML: {error}") from error
    try:
        return read_space(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def read_space(data: Mapping[str, Any]) -> Space:
    """Convert the tables of a file into a space.

    Raises:
        UsageError: The tables are invalid, or leave no configuration.
    """
    for name, table in data.items():
        if name not in _TABLES or not isinstance(table, dict):
            raise UsageError(f"`{name}` is not a table of a space; available: {', '.join(_TABLES)}")
    parameters = {n: _values(n, values) for n, values in data.get("parameters", {}).items()}
    if not parameters:
        raise UsageError("the space is empty: the table [parameters] is missing or empty")
    combinations = math.prod(map(len, parameters.values()))
    if combinations > MOST_COMBINATIONS:
        raise UsageError(
            f"the space has {combinations:,} combinations, more than {MOST_COMBINATIONS:,}: "
            "give fewer values"
        )
    names = dict.fromkeys(parameters)
    derived = {}
    for name, text in data.get("derived", {}).items():
        if name in names:
            raise UsageError(f"`{name}` is in both [parameters] and [derived]")
        derived[name] = Expression(_text(name, text), names)
        names[name] = None
    conditions = {
        name: Expression(_text(name, text), names)
        for name, text in data.get("conditions", {}).items()
    }
    return _enumerate(combinations, parameters, derived, conditions)


def _enumerate(
    combinations: int,
    parameters: Mapping[str, Sequence[Any]],
    derived: Mapping[str, Expression],
    conditions: Mapping[str, Expression],
) -> Space:
    configs = []
    rejected = dict.fromkeys(conditions, 0)
    for chosen in itertools.product(*parameters.values()):
        values = dict(zip(parameters, chosen, strict=True))
        for name, expression in derived.items():
            values[name] = expression.value(values)
        failed = [name for name, condition in conditions.items() if not condition.value(values)]
        for name in failed:
            rejected[name] += 1
        if not failed:
            configs.append(values)
    if not configs:
        raise UsageError(_why_empty(combinations, conditions, rejected))
    return Space(combinations, configs)


def _why_empty(
    combinations: int, conditions: Mapping[str, Expression], rejected: Mapping[str, int]
) -> str:
    alone = [name for name, count in rejected.items() if count == combinations]
    if alone:
        text = conditions[alone[0]].text
        return (
            f"no configuration is left: none of {combinations:,} combinations meets the condition "
            f"`{alone[0]}`: {text}"
        )
    counts = ", ".join(f"`{name}` {count:,}" for name, count in rejected.items())
    return (
        f"no configuration is left: each of the {combinations:,} combinations violates a "
        f"condition (violations: {counts})"
    )


def _values(name: str, entry: Any) -> list[Any]:
    """Return the distinct values of a parameter, in the order given."""
    if isinstance(entry, dict) and len(entry) == 1:
        ((kind, bounds),) = entry.items()
        if kind in _RANGES:
            return _RANGES[kind](name, bounds)
    if isinstance(entry, list) and all(isinstance(v, (bool, int, float, str)) for v in entry):
        if not entry:
            raise UsageError(f"the space is empty: `{name}` has no values")
        return list({(type(value), value): value for value in entry}.values())
    raise UsageError(
        f"`{name}`: give a list of values, {{ powers_of_two = [first, last] }} or "
        "{ range = [first, last, step] }"
    )


def _powers_of_two(name: str, bounds: Any) -> list[Any]:
    first, last = _integers(name, "powers_of_two", bounds, (2,))
    if first < 1 or first & (first - 1):
        raise UsageError(f"`{name}`: powers_of_two = {bounds}: {first} is not a power of two")
    return _not_empty(name, bounds, [1 << n for n in range(first.bit_length() - 1, 63)], last)


def _range(name: str, bounds: Any) -> list[Any]:
    first, last, *rest = _integers(name, "range", bounds, (2, 3))
    step = rest[0] if rest else 1
    if step < 1:
        raise UsageError(f"`{name}`: range = {bounds}: the step must be positive")
    if (last - first) // step > MOST_COMBINATIONS:
        raise UsageError(f"`{name}`: range = {bounds} has more than {MOST_COMBINATIONS:,} values")
    return _not_empty(name, bounds, range(first, last + 1, step), last)


def _not_empty(name: str, bounds: Any, values: Sequence[int], last: int) -> list[Any]:
    kept = [value for value in values if value <= last]
    if not kept:
        raise UsageError(f"the space is empty: `{name}` has no values from {bounds[0]} to {last}")
    return kept


def _integers(name: str, kind: str, bounds: Any, counts: Sequence[int]) -> list[int]:
    right = isinstance(bounds, list) and all(type(value) is int for value in bounds)
    if not right or len(bounds) not in counts:
        shape = "[first, last]" if counts == (2,) else "[first, last] or [first, last, step]"
        raise UsageError(
            f"`{name}`: {kind} takes {shape}; these are integers, and both ends are included"
        )
    return list(bounds)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"`{name}` must be an expression in quotes, not {value!r}")
    return value


_RANGES = {"powers_of_two": _powers_of_two, "range": _range}
