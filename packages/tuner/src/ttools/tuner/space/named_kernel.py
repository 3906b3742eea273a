"""A kernel tuned without a program: over a space from a file, on inputs from a function.

Owns what a file of inputs must define. Must not know how a space is written nor how it is searched.

The file defines `inputs()`, which returns the arguments by name and the grid, or a list (or
generator) of several such pairs, each tuned separately:

    def inputs():
        x, out = torch.rand(4096), torch.empty(4096)
        return {"x_ptr": x, "out_ptr": out, "n": 4096}, lambda meta: (4096 // meta["BLOCK"],)

It may have parameters; whoever loads it then says what they are called with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isgenerator
from pathlib import Path
from typing import Any

from ttools.core import triton_versions
from ttools.core.errors import UsageError
from ttools.core.process.user_module import function_of, load_file

Grid = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]
#: The parameters that a function of a module is called with, once for each.
Problems = Callable[[Any, Callable[..., Any]], Iterable[Mapping[str, Any]]]
_FUNCTION = "inputs"
_RETURNS = "must return ({name: argument}, grid), or a list of such pairs"


@dataclass(frozen=True)
class Inputs:
    """Arguments of a launch by name, and its grid."""

    arguments: Mapping[str, Any]
    grid: Grid


def load_inputs(
    path: Path, name: str = _FUNCTION, problems: Problems | None = None
) -> list[Inputs]:
    """Calls `inputs()` of a file.

    Args:
        problems: what it is called with; once with nothing by default.

    Raises:
        UsageError: it is not there, has no such function, or that returns something else.
    """
    found = call_inputs(path, name, problems)
    return [_pair(path, name, each) for each in found]


def call_inputs(path: Path, name: str, problems: Problems | None = None) -> list[Any]:
    """What a function of a file returns; elements of lists and generators one by one.

    Raises:
        UsageError: see `load_inputs`; what it returns is not looked at.
    """
    module = load_file(path)
    function = function_of(module, name, path)
    try:
        found: list[Any] = []
        for each in [{}] if problems is None else problems(module, function):
            returned = function(**each)
            several = isgenerator(returned) or isinstance(returned, list)
            found += returned if several else [returned]
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"`{path}` fails: {type(error).__name__}: {error}") from error
    if not found:
        raise UsageError(f"`{path}`: `{name}()` returned no inputs")
    return found


def _pair(path: Path, name: str, given: Any) -> Inputs:
    if isinstance(given, tuple) and len(given) == 2:
        arguments, grid = given
        if isinstance(arguments, Mapping) and (callable(grid) or isinstance(grid, (tuple, list))):
            return Inputs(arguments, grid if callable(grid) else tuple(grid))
    raise UsageError(f"`{path}`: `{name}()` {_RETURNS}")


def autotuned(kernel: Any, configs: Sequence[Any], inputs: Iterable[Inputs]) -> Any:
    """An autotuner over configurations; numbers among the inputs are its key.

    Args:
        kernel: as decorated; an autotuner around it gives way.

    Raises:
        UsageError: inputs or space name what the kernel has not, or leave parameters out.
    """
    inner = kernel.fn if isinstance(kernel, triton_versions.autotuner_class()) else kernel
    function = triton_versions.innermost_jit_function(inner)
    names = list(function.arg_names)
    given = [set(each.arguments) for each in inputs]
    tuned = {name for config in configs for name in config.kwargs}
    computed = set(getattr(inner, "values", {}))
    for name in sorted({*tuned, *set().union(*given)} - set(names)):
        raise UsageError(f"`{function.__name__}` has no parameter `{name}`: {', '.join(names)}")
    defaults = {param.name for param in function.params if param.has_default}
    for known in given:
        both = sorted(known & tuned)
        if both:
            raise UsageError(f"`{both[0]}` is in the space and among the inputs")
        missing = [n for n in names if n not in known | tuned | computed | defaults]
        if missing:
            raise UsageError(
                f"`{function.__name__}` needs {', '.join(missing)}: in the space or from inputs()"
            )
    key = [n for n in names if any(_is_number(each.arguments.get(n)) for each in inputs)]
    import triton

    return triton.autotune(configs=list(configs), key=key)(inner)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str))


def launch_all(tuner: Any, inputs: Iterable[Inputs]) -> None:
    """Launches a kernel once with each of the inputs."""
    for each in inputs:
        tuner[each.grid](**each.arguments)
