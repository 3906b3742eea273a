"""Cases that one kernel computes: compiling many together takes a third of compiling each.

Each test still asks for its own case, under its own name. Should a kernel of all cases fail, each
is launched alone, so that only the tests of those that are wrong fail.
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
    """A kernel's text, and what it is launched with.

    Attributes:
        text: defines the function `kernel`, and none that it calls.
        arguments: tensors and numbers, in order.
        constants: the others, by name.
    """

    text: str
    arguments: Sequence[Any]
    constants: Mapping[str, int] = field(default_factory=dict)


def launch_together(launches: Sequence[Launch], programs: int, definitions: str = "") -> None:
    """Run one kernel that calls those of many launches, one after another.

    Args:
        launches: what to run.
        programs: how many of each.
        definitions: functions that the kernels call.
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
    """Cases of many tests, computed together when the first test asks.

    Args:
        keys: names of the cases.
        launch: what a case launches; it is asked again for each schedule.
        programs: how many of each case.
    """

    def __init__(
        self, keys: Iterable[Key], launch: Callable[[Key], Launch], programs: int = 1
    ) -> None:
        self._keys = list(keys)
        self._launch = launch
        self._programs = programs
        self._made: dict[str, dict[Key, Sequence[Any]]] = {}

    def arguments(self, key: Key, schedule: str) -> Sequence[Any]:
        """The arguments of a case after it was run under a schedule, the one of the test."""
        if schedule not in self._made:
            self._made[schedule] = self._run_all()
        made = self._made[schedule]
        if key not in made:
            launch = self._launch(key)
            launch_together([launch], self._programs)
            made[key] = launch.arguments
        return made[key]

    def _run_all(self) -> dict[Key, Sequence[Any]]:
        launches = {key: self._launch(key) for key in self._keys}
        try:
            launch_together(list(launches.values()), self._programs)
        except Exception:  # noqa: BLE001 - whatever it is, the test of the case at fault meets it
            return {}
        return {key: launch.arguments for key, launch in launches.items()}


def elementwise(
    expression: str, out: Format, inputs: Sequence[Array], block: int | None = None
) -> Launch:
    """Stores an expression of x, y and z lane by lane; the result is the first argument.

    Args:
        expression: Triton's.
        out: format of the result.
        inputs: as many as the expression has.
        block: elements of a program; by default two programs are due, the second cut short.
    """
    n = inputs[0].size
    block = block or max(16, 1 << (n - 1).bit_length() - 1)
    text = kernel_text.elementwise_text(expression, len(inputs))
    return Launch(text, (empty(n, out), *map(to_torch, inputs), n), {"BLOCK": block})


def evaluate(cases: Sequence[tuple[str, Format, Sequence[Array]]]) -> list[Array]:
    """The values of expressions of x, y and z, each of a format and of inputs of its own."""
    launches = [elementwise(*case, block=512) for case in cases]
    launch_together(launches, -(-max(inputs[0].size for _, _, inputs in cases) // 512))
    return [to_numpy(launch.arguments[0]) for launch in launches]


def tiles(
    body: str, inputs: Mapping[str, Array], outputs: Mapping[str, tuple[tuple[int, ...], Format]]
) -> Launch:
    """What `run_tiles` launches; its results are the last arguments."""
    results = [empty(shape, element) for shape, element in outputs.values()]
    text = kernel_text.tiles_text(body, inputs, outputs)
    return Launch(text, (*map(to_torch, inputs.values()), *results))
