"""What a finding says of the launch it was made in: arguments, programs, lanes, the host's line.

Owns the translation from a launch's numbers to the words of a report. Must not know any check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttools.core.findings.findings import Argument
from ttools.core.spec import storage_extent
from ttools.interpreter.run.kernel_launch import KernelLaunch


@dataclass(frozen=True, slots=True)
class Subject:
    """A launch, as findings describe it.

    Attributes:
        arguments: as passed, one per parameter.
        host_line: `file:line` of the launch.
        config: of the autotuner, if one made the launch.
    """

    kernel: str
    grid: tuple[int, int, int]
    names: tuple[str, ...]
    arguments: tuple[Any, ...]
    host_line: str | None
    config: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, launch: KernelLaunch) -> Subject:
        x, y, z = (*map(int, launch.grid), 1, 1, 1)[:3]
        return cls(
            kernel=launch.kernel.name,
            grid=(x, y, z),
            names=launch.kernel.plan.names,
            arguments=tuple(launch.arguments),
            host_line=launch.site.line,
            config=launch.site.config,
        )

    def program(self, linear: int) -> tuple[int, int, int]:
        x, y, _ = self.grid
        return linear % x, linear // x % y, linear // (x * y)

    def argument(self, index: int) -> Argument | None:
        """The description of the argument for a parameter; None for -1."""
        if not 0 <= index < len(self.names):
            return None
        return describe(self.names[index], self.arguments[index])

    def variables(self, values: Sequence[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
        """Names and values as text; `%3` becomes the name of parameter 3."""
        # Several numbers of a descriptor may be one parameter.
        return tuple(dict.fromkeys((self._variable(name), _text(value)) for name, value in values))

    def _variable(self, name: str) -> str:
        if name.startswith("%") and name[1:].isdigit() and int(name[1:]) < len(self.names):
            return self.names[int(name[1:])]
        return name


def describe(name: str, value: Any) -> Argument:
    """An argument as findings show it."""
    tensor = value if hasattr(value, "untyped_storage") else getattr(value, "base", value)
    try:
        shape = tuple(int(n) for n in tensor.shape)
        strides = tuple(int(tensor.stride(n)) for n in range(len(shape)))
        item = int(tensor.element_size())
    except (AttributeError, TypeError):
        return Argument(name=name, dtype=type(value).__name__)
    start, end = storage_extent(tensor) or (0, 0)
    return Argument(
        name=name,
        dtype=str(getattr(value, "dtype", tensor.dtype)).removeprefix("torch."),
        shape=shape,
        strides=strides,
        offset=(int(tensor.data_ptr()) - start) // item if end > start else 0,
        storage_bytes=end - start,
    )


def lane_indices(lane: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major lane as one index per axis; `()` for a scalar."""
    indices: list[int] = []
    for extent in reversed(shape):
        lane, index = divmod(lane, extent)
        indices.insert(0, index)
    return tuple(indices)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
