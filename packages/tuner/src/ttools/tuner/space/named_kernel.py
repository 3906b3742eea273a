"""Tuning of a kernel without a program: over a space from a file, on inputs from a function.

The file of inputs defines `inputs()`, which returns the arguments by name and the grid. It may also
return a list or a generator of such pairs; each is tuned separately:

    def inputs():
        x, out = torch.rand(4096), torch.empty(4096)
        return {"x_ptr": x, "out_ptr": out, "n": 4096}, lambda meta: (4096 // meta["BLOCK"],)

The function may have parameters; then the caller of `load_inputs` supplies their values.
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
#: A function that returns the sets of arguments with which a function of a module is called.
Problems = Callable[[Any, Callable[..., Any]], Iterable[Mapping[str, Any]]]
_FUNCTION = "inputs"
_RETURNS = "must return ({name: argument}, grid), or a list of such pairs"


@dataclass(frozen=True)
class Inputs:
    """The arguments of a launch by name, and its grid."""

    arguments: Mapping[str, Any]
    grid: Grid


def load_inputs(
    path: Path, name: str = _FUNCTION, problems: Problems | None = None
) -> list[Inputs]:
    """Call the function `inputs()` of a file.

    Args:
        path: Path of the Python file.
        name: Name of the function.
        problems: Function that returns the arguments of each call; None for one call without
            arguments.

    Raises:
        UsageError: The file does not exist, does not define the function, or the function returns
            an invalid result.
    """
    pairs = call_inputs(path, name, problems)
    return [_pair(path, name, pair) for pair in pairs]


def call_inputs(path: Path, name: str, problems: Problems | None = None) -> list[Any]:
    """Return the results of a file's function; lists and generators are flattened.

    Raises:
        UsageError: Same as `load_inputs`, except that the results are not checked.
    """
    module = load_file(path)
    function = function_of(module, name, path)
    try:
        results: list[Any] = []
        for keywords in [{}] if problems is None else problems(module, function):
            returned = function(**keywords)
            several = isgenerator(returned) or isinstance(returned, list)
            results += returned if several else [returned]
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"`{path}` fails: {type(error).__name__}: {error}") from error
    if not results:
        raise UsageError(f"`{path}`: `{name}()` returned no inputs")
    return results


def _pair(path: Path, name: str, result: Any) -> Inputs:
    if isinstance(result, tuple) and len(result) == 2:
        arguments, grid = result
        if isinstance(arguments, Mapping) and (callable(grid) or isinstance(grid, (tuple, list))):
            return Inputs(arguments, grid if callable(grid) else tuple(grid))
    raise UsageError(f"`{path}`: `{name}()` {_RETURNS}")


def autotuned(kernel: Any, configs: Sequence[Any], inputs: Iterable[Inputs]) -> Any:
    """Return an autotuner over configurations, whose key consists of the numeric inputs.

    Args:
        kernel: The decorated kernel; an existing autotuner around it is replaced.
        configs: Configurations of the space.
        inputs: Inputs for which the kernel is tuned.

    Raises:
        UsageError: The inputs or the space refer to unknown parameters, or omit parameters.
    """
    inner = kernel.fn if isinstance(kernel, triton_versions.autotuner_class()) else kernel
    function = triton_versions.innermost_jit_function(inner)
    names = list(function.arg_names)
    passed = [set(launch.arguments) for launch in inputs]
    tuned = {name for config in configs for name in config.kwargs}
    computed = set(getattr(inner, "values", {}))
    for name in sorted({*tuned, *set().union(*passed)} - set(names)):
        raise UsageError(
            f"`{function.__name__}` has no parameter `{name}`; available: {', '.join(names)}"
        )
    defaults = {param.name for param in function.params if param.has_default}
    for names_passed in passed:
        both = sorted(names_passed & tuned)
        if both:
            raise UsageError(
                f"`{both[0]}` is both in the space and among the inputs; remove one of the two"
            )
        missing = [n for n in names if n not in names_passed | tuned | computed | defaults]
        if missing:
            raise UsageError(
                f"`{function.__name__}` needs values for {', '.join(missing)}, in the space "
                "or from inputs()"
            )
    key = [n for n in names if any(_is_number(launch.arguments.get(n)) for launch in inputs)]
    import triton

    return triton.autotune(configs=list(configs), key=key)(inner)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str))


def launch_all(tuner: Any, inputs: Iterable[Inputs]) -> None:
    """Launch a kernel once with each set of inputs."""
    for launch in inputs:
        tuner[launch.grid](**launch.arguments)
