"""Reads the domain of the inputs from `DOMAIN` in the module of `inputs`, or from annotations.

Values of parameters that are not sizes are sent between processes as indices, so the values may be
any objects.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ttools.core.errors import UsageError

#: Maximum number of arguments in an example of inputs.
_EXAMPLES = 3


@dataclass(frozen=True)
class Domain:
    """The parameters of `inputs`.

    Attributes:
        sizes: Smallest and largest value of each integer parameter.
        choices: For each other parameter, the labels of its values.
        seeded: If True, there is a parameter `seed`.
        literals: The values of the parameters in `choices` as Python source; empty for a value that
            cannot be written as a literal.
    """

    sizes: dict[str, tuple[int, int]]
    choices: dict[str, list[str]]
    seeded: bool
    literals: dict[str, list[str]] = field(default_factory=dict)

    def labels(self, choices: dict[str, int]) -> dict[str, str]:
        """Return the labels of the values with the given indices."""
        return {name: self.choices[name][number] for name, number in choices.items()}

    def call(self, sizes: dict[str, int], choices: dict[str, int], seed: int) -> str | None:
        """Return the source of the arguments of `inputs`; None if a value has no literal."""
        values = {name: str(size) for name, size in sizes.items()}
        for name, number in choices.items():
            values[name] = self.literals[name][number] if name in self.literals else ""
        if self.seeded:
            values["seed"] = str(seed)
        listed = ", ".join(f"{name}={value}" for name, value in values.items())
        return listed if all(values.values()) else None


def read_domain(module: Any, draw: Callable[..., Any]) -> dict[str, Any]:
    """Return a domain that can be sent to another process, with labels in place of values.

    Raises:
        UsageError: A parameter has no domain or an invalid one.
    """
    entries = entries_of(module, draw)
    sizes = {key: list(entry) for key, entry in entries.items() if _is_range(entry)}
    choices = {
        key: [_label(value) for value in entry]
        for key, entry in entries.items()
        if not _is_range(entry)
    }
    literals = {key: [_literal(value) for value in entries[key]] for key in choices}
    seeded = "seed" in inspect.signature(draw).parameters
    return {"sizes": sizes, "choices": choices, "seeded": seeded, "literals": literals}


def example_of_inputs(reference: Callable[..., Any], sizes: list[str], seeded: bool) -> str:
    """Return an example of a function that draws the inputs of a reference, with its domain.

    Args:
        reference: The function that takes the inputs.
        sizes: Names of integer parameters; if there are none, the example has the parameter `n`.
        seeded: If True, the function has a parameter `seed`.
    """
    names = sizes or ["n"]
    try:
        taken = [p for p in inspect.signature(reference).parameters.values() if _is_required(p)]
    except (TypeError, ValueError):  # some built-in functions have no signature
        taken = []
    tensor = f"torch.randn({', '.join(names)})"
    shown = [f'"{parameter.name}": {tensor}' for parameter in taken[:_EXAMPLES]]
    drawn = ", ".join([*(shown or [f'"x": {tensor}']), *(["…"] if taken[_EXAMPLES:] else [])])
    head = ", ".join([*names, *(["seed"] if seeded else [])])
    domain = ", ".join(f'"{name}": (1, 1000)' for name in names)
    return f"`def inputs({head}): return {{{drawn}}}` with `DOMAIN = {{{domain}}}`"


def _is_required(parameter: inspect.Parameter) -> bool:
    is_variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not is_variable


def entries_of(module: Any, draw: Callable[..., Any]) -> dict[str, Any]:
    """Return, for each parameter of `inputs`, a pair (lowest, highest) or a list of values.

    Raises:
        UsageError: A parameter has no domain or an invalid one.
    """
    declared = dict(getattr(module, "DOMAIN", None) or {})
    try:
        hints = typing.get_type_hints(draw, include_extras=True)
    except (NameError, TypeError):
        hints = {}
    entries: dict[str, Any] = {}
    for name, parameter in inspect.signature(draw).parameters.items():
        if name == "seed" or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        entry = declared.pop(name, None)
        if entry is None:
            entry = _of_annotation(hints.get(name))
        if entry is None and parameter.default is not parameter.empty:
            continue
        if entry is None:
            raise UsageError(
                f"inputs() has a parameter `{name}` without a domain: add it to DOMAIN, as in "
                f'DOMAIN = {{"{name}": (0, 100)}}, or annotate it: Annotated[int, (0, 100)]'
            )
        entries[name] = _checked(name, entry)
    if declared:
        raise UsageError(
            f"DOMAIN names `{next(iter(declared))}`, which is not a parameter of inputs()"
        )
    return entries


def _of_annotation(hint: Any) -> Any:
    if typing.get_origin(hint) is typing.Literal:
        return list(typing.get_args(hint))
    if typing.get_origin(hint) is typing.Annotated:
        kind, *extra = typing.get_args(hint)
        for metadata in extra:
            if isinstance(metadata, range) and len(metadata):
                return (metadata[0], metadata[-1])
            if isinstance(metadata, (tuple, list)):
                return metadata
        return _of_annotation(kind)
    return [False, True] if hint is bool else None


def _checked(name: str, entry: Any) -> Any:
    if isinstance(entry, range) and len(entry):
        entry = (entry[0], entry[-1])
    if _is_range(entry):
        low, high = entry
        if low > high or low < 0:
            raise UsageError(
                f"DOMAIN[{name!r}] = {entry!r}: must be (lowest, highest) with "
                "0 <= lowest <= highest"
            )
        return (int(low), int(high))
    if isinstance(entry, (list, tuple)) and entry:
        return list(entry)
    raise UsageError(f"DOMAIN[{name!r}] = {entry!r}: must be (lowest, highest) or a list of values")


def _is_range(entry: Any) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2 and all(type(end) is int for end in entry)


def _label(value: Any) -> str:
    return value if isinstance(value, str) else str(value).removeprefix("torch.")


def _literal(value: Any) -> str:
    """Return Python source of a value; empty unless `torch` and built-in names suffice for it."""
    if value is None or isinstance(value, (str, bool, int)):
        return repr(value) if type(value).__module__ == "builtins" else ""
    if isinstance(value, float):
        return f"float({str(value)!r})"
    return str(value) if isinstance(value, torch.dtype) else ""


def domain_of(sent: dict[str, Any]) -> Domain:
    """Return the domain that `read_domain` described."""
    return Domain(
        sizes={key: (low, high) for key, (low, high) in sent["sizes"].items()},
        choices=sent["choices"],
        seeded=sent["seeded"],
        literals=sent["literals"],
    )
