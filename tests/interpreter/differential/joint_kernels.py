"""Test cases that share a kernel, because compiling many together takes a third of the time.

Each test requests its own case. If the kernel of all cases fails, each case is launched alone, so
that only the tests of the wrong cases fail.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import kernel_text
from number_formats import Array, Format, empty, to_numpy, to_torch

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Launch:
    """The text of a kernel, and its arguments.

    Attributes:
        text: Definition of the function `kernel`, without the functions that it calls.
        arguments: Tensors and numbers, in order.
        constants: Values of the constexpr parameters.
    """

    text: str
    arguments: Sequence[Any]
    constants: Mapping[str, int] = field(default_factory=dict)


def launch_together(launches: Sequence[Launch], programs: int, definitions: str = "") -> None:
    """Run one kernel that calls the kernels of many launches, one after another.

    Args:
        launches: Kernels and arguments to run.
        programs: Number of programs of each launch.
        definitions: Text of the functions that the kernels call.
    """
    functions: dict[str, str] = {}
    parameters, calls = [], []
    for number, launch in enumerate(launches):
        name = functions.setdefault(launch.text, f"case_{len(functions)}")
        own = [f"x{number}_{n}" for n in range(len(launch.arguments))]
        constants = [f"{constant}={value}" for constant, value in launch.constants.items()]
        parameters += own
        calls.append(f"    {name}({', '.join([*own, *constants])})")
    texts = [
        textwrap.dedent(text).replace("def kernel(", f"def {name}(", 1)
        for text, name in functions.items()
    ]
    head = f"@triton.jit\ndef kernel({', '.join(parameters)}):"
    kernel = kernel_text.kernel("\n".join([textwrap.dedent(definitions), *texts, head, *calls, ""]))
    kernel[(programs,)](*(x for launch in launches for x in launch.arguments))


class Cases(Generic[Key]):
    """Cases of many tests, which are computed together at the first request.

    Args:
        keys: Names of the cases.
        launch: Function that returns the launch of a case; it is called once per schedule.
        programs: Number of programs of each case.
    """

    def __init__(
        self, keys: Iterable[Key], launch: Callable[[Key], Launch], programs: int = 1
    ) -> None:
        self._keys = list(keys)
        self._launch = launch
        self._programs = programs
        self._made: dict[str, dict[Key, Sequence[Any]]] = {}

    def arguments(self, key: Key, schedule: str) -> Sequence[Any]:
        """Run a case under the schedule of the test, unless it has run; return its arguments."""
        if schedule not in self._made:
            self._made[schedule] = self._run_all()
        computed = self._made[schedule]
        if key not in computed:
            launch = self._launch(key)
            launch_together([launch], self._programs)
            computed[key] = launch.arguments
        return computed[key]

    def _run_all(self) -> dict[Key, Sequence[Any]]:
        launches = {key: self._launch(key) for key in self._keys}
        try:
            launch_together(list(launches.values()), self._programs)
        except Exception:  # noqa: BLE001 - the test of the wrong case raises it again
            return {}
        return {key: launch.arguments for key, launch in launches.items()}


def elementwise(
    expression: str, out: Format, inputs: Sequence[Array], block: int | None = None
) -> Launch:
    """Return the launch of a kernel that stores an expression of x, y and z for each lane.

    The result is the first argument.

    Args:
        expression: Expression in Triton's syntax.
        out: Format of the result.
        inputs: Values of x, y and z, as far as the expression contains them.
        block: Elements per program; by default there are two programs, the second with a mask.
    """
    n = inputs[0].size
    block = block or max(16, 1 << (n - 1).bit_length() - 1)
    text = kernel_text.elementwise_text(expression, len(inputs))
    return Launch(text, (empty(n, out), *map(to_torch, inputs), n), {"BLOCK": block})


def evaluate(cases: Sequence[tuple[str, Format, Sequence[Array]]]) -> list[Array]:
    """Return the values of expressions of x, y and z, each given with its format and inputs."""
    launches = [elementwise(*case, block=512) for case in cases]
    launch_together(launches, -(-max(inputs[0].size for _, _, inputs in cases) // 512))
    return [to_numpy(launch.arguments[0]) for launch in launches]


def tiles(
    body: str, inputs: Mapping[str, Array], outputs: Mapping[str, tuple[tuple[int, ...], Format]]
) -> Launch:
    """Return the launch that `run_tiles` makes; its results are the last arguments."""
    results = [empty(shape, element) for shape, element in outputs.values()]
    text = kernel_text.tiles_text(body, inputs, outputs)
    return Launch(text, (*map(to_torch, inputs.values()), *results))
