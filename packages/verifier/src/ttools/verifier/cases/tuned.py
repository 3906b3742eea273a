"""Chooses the arguments that `ttools tune` passes to `inputs`: only a few sizes, all large."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ttools.core.errors import UsageError
from ttools.verifier.cases.domain import entries_of
from ttools.verifier.cases.plan import fitted


def problems_of(module: Any, draw: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return the parameters of `inputs` for each problem to tune.

    If the module defines `TUNE`, its entries are used. Otherwise the sizes are the largest in the
    domain, reduced until their product is at most four million, and the other parameters take all
    of their values.

    Args:
        module: Module that defines `draw`, `DOMAIN` and `TUNE`.
        draw: Function that returns arguments.

    Raises:
        UsageError: A parameter has no domain, or `TUNE` is invalid.
    """
    entries = entries_of(module, draw)
    ranges = {name: entry for name, entry in entries.items() if isinstance(entry, tuple)}
    choices = {name: entry for name, entry in entries.items() if isinstance(entry, list)}
    plain: dict[str, Any] = fitted({name: high for name, (_, high) in ranges.items()}, ranges)
    if "seed" in inspect.signature(draw).parameters:
        plain["seed"] = 0
    declared = getattr(module, "TUNE", None)
    if declared is None:
        longest = max(map(len, choices.values()), default=1)
        return [
            {**plain, **{name: values[index % len(values)] for name, values in choices.items()}}
            for index in range(longest)
        ]
    plain |= {name: values[0] for name, values in choices.items()}
    if not isinstance(declared, list) or not all(isinstance(problem, dict) for problem in declared):
        raise UsageError('TUNE must be a list of parameters of inputs(), as in [{"M": 4096}]')
    unknown = [name for problem in declared for name in problem if name not in plain]
    if unknown:
        raise UsageError(f"TUNE names `{unknown[0]}`, which is not a parameter of inputs()")
    return [{**plain, **problem} for problem in declared]


@contextmanager
def arguments_on_gpu(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the arguments with tensors on the GPU, which is the default device in this context."""
    import torch

    from ttools.verifier.cases.tensors import map_tensors

    with torch.device("cuda"):
        yield map_tensors(_on_gpu, arguments, torch.Tensor)


def _on_gpu(tensor: Any) -> Any:
    return tensor.detach().to("cuda").requires_grad_(tensor.requires_grad)
