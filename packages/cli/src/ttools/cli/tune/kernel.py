"""`ttools tune FILE.py:KERNEL`: one kernel, without a script around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttools.cli import exit_codes
from ttools.cli.console import say
from ttools.cli.kernel_file import load_decorated
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
    word: str, configs: Sequence[Any] | None, inputs: Path, device_map: str | None
) -> tuple[int, TtoolsError | None]:
    """Launches a kernel once with each of its inputs.

    Args:
        word: `FILE.py:KERNEL`.
        configs: of the space; those of the kernel's autotuner if None.
        inputs: the file that defines `inputs()`.
        device_map: what becomes of the CUDA devices that the files name.

    Returns:
        The exit status, and a failure of ours to be shown after the report.
    """
    from ttools.tuner.space.named_kernel import autotuned, launch_all, load_inputs

    with devices_for(device_map):
        kernel = load_decorated(word)
        own = getattr(kernel, "configs", None)
        if configs is None and own is None:
            raise UsageError(f"`{word}` has no autotuner, so it needs --space FILE.toml")
        found = load_inputs(inputs)
        tuner = autotuned(kernel, configs or own or (), found)
        try:
            launch_all(tuner, found)
        except KeyboardInterrupt:
            return exit_codes.INTERRUPTED, None
        except TtoolsError as error:
            return exit_codes.TOOL_FAILURE, error
        except Exception as error:  # noqa: BLE001 - the kernel's: no configuration runs
            last = str(error).strip().splitlines()[-1:] or ["no message"]
            say("error", f"no configuration of `{word}` runs: {type(error).__name__}: {last[0]}")
            return exit_codes.FINDINGS, None
    return exit_codes.OK, None
