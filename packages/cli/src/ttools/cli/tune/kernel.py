"""`ttools tune FILE.py:NAME`: one kernel, or one function that launches kernels, no script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ttools.cli import exit_codes
from ttools.cli.console import say
from ttools.cli.kernel_file import load_decorated
from ttools.cli.targets import is_kernel
from ttools.cli.work import devices_for
from ttools.core.errors import TtoolsError, UsageError


def read_configs(space: Path | None) -> list[Any] | None:
    """The configurations of a space, after a note of its size; None without one.

    Raises:
        UsageError: the space makes no sense or is empty.
    """
    if space is None:
        return None
    from ttools.tuner.space.toml_space import load_space

    found = load_space(space)
    say("note", f"{space}: {found}")
    return found.triton_configs()


def run_kernel(
    word: str,
    configs: Sequence[Any] | None,
    inputs: str,
    device_map: str | None,
    *,
    on_gpu: bool = False,
) -> tuple[int, TtoolsError | None]:
    """Launches a kernel once with each of its inputs, or calls a function that launches some.

    Args:
        word: `FILE.py:NAME`.
        configs: of the space; those of the kernel's autotuner if None.
        inputs: the file that defines `inputs()`, or `FILE.py:NAME`.
        device_map: what becomes of the CUDA devices that the files name.
        on_gpu: whether a GPU times; arguments of a function are then put there.

    Returns:
        The exit status, and a failure of ours to be shown after the report.
    """
    from ttools.core.compilation.kernel_source import kernel_within
    from ttools.tuner.space.named_kernel import autotuned, launch_all, load_inputs
    from ttools.verifier.cases.tuned import problems_of

    path, name = _named(inputs)
    with devices_for(device_map):
        kernel = load_decorated(word, or_function=True)
        if kernel_within(kernel) is None:
            if configs is not None:
                raise UsageError(f"--space is for a kernel, and `{word}` launches its own")
            return _ended(word, partial(_call, word, kernel, path, name, on_gpu))
        own = getattr(kernel, "configs", None)
        if configs is None and own is None:
            raise UsageError(f"`{word}` has no autotuner, so it needs --space FILE.toml")
        found = load_inputs(path, name, problems_of)
        tuner = autotuned(kernel, configs or own or (), found)
        return _ended(word, partial(launch_all, tuner, found))


def _named(inputs: str) -> tuple[Path, str]:
    """`FILE.py` or `FILE.py:NAME`."""
    if is_kernel(inputs):
        file, _, name = inputs.rpartition(":")
        return Path(file), name
    return Path(inputs), "inputs"


def _call(word: str, function: Any, path: Path, name: str, on_gpu: bool) -> None:
    """Calls a function with all that `inputs()` returns for the sizes to tune."""
    from ttools.tuner.space.named_kernel import call_inputs
    from ttools.verifier.cases.tuned import arguments_on_gpu, problems_of

    for arguments in call_inputs(path, name, problems_of):
        if not isinstance(arguments, Mapping):
            raise UsageError(f"`{path}`: `{name}()` must return the keyword arguments of `{word}`")
        if not on_gpu:
            function(**arguments)
            continue
        with arguments_on_gpu(arguments) as moved:
            function(**moved)


def _ended(word: str, run: Callable[[], None]) -> tuple[int, TtoolsError | None]:
    """How a run ends: the exit status, and a failure of ours."""
    try:
        run()
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED, None
    except TtoolsError as error:
        return exit_codes.TOOL_FAILURE, error
    except Exception as error:  # noqa: BLE001 - the kernel's: no configuration runs
        last = str(error).strip().splitlines()[-1:] or ["no message"]
        say("error", f"no configuration of `{word}` runs: {type(error).__name__}: {last[0]}")
        return exit_codes.FINDINGS, None
    return exit_codes.OK, None
