"""`ttools inspect --all-configs`: all configurations of autotuned kernels, for several GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ttools.cli import exit_codes
from ttools.cli.console import say, write_json, write_text
from ttools.cli.progress import State, progress

if TYPE_CHECKING:
    from ttools.cli.inspect.other_triton import OtherTriton
    from ttools.core.compilation.config_matrix import ConfigMatrix, Configured
    from ttools.core.gpus.targets import Target

#: Maximum number of differences from another version of Triton that the text report lists.
_MOST_DIFFERENCES = 10

FailOn = Literal["kernel", "config", "never"]


def compile_all(
    launches: Sequence[Sequence[Configured]], targets: Mapping[Target, str]
) -> ConfigMatrix:
    """Compile all configurations for all GPUs, and show the progress.

    Args:
        targets: The GPUs and their names in reports.
    """
    from ttools.core.compilation.config_matrix import make_matrix

    total = sum(map(len, launches)) * len(targets)
    done = 0

    def made() -> None:
        nonlocal done
        done += 1

    with progress(
        lambda: State(what="compiled", done=done, total=total, unit="configurations"), shared=False
    ):
        return make_matrix(launches, targets, made)


def matrices_by(
    environments: Sequence[OtherTriton], words: Sequence[str], gpus: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the matrices that other versions of Triton make, as data.

    Args:
        words: The options and the target of the command, without GPUs and format.
        gpus: Names of the GPUs.

    Raises:
        TtoolsError: The command fails in one of the environments.
    """
    from ttools.cli.inspect.other_triton import matrix_by

    options = ["--all-configs", "--fail-on", "never", "--format", "json", "--gpu", ",".join(gpus)]
    return [matrix_by(environment, ["inspect", *options, *words]) for environment in environments]


def write_matrix(
    matrix: ConfigMatrix, form: str, output: Path | None, others: Sequence[dict[str, Any]] = ()
) -> None:
    """Write a matrix as text, JSON or HTML.

    Args:
        others: Matrices of other versions of Triton to compare with.
    """
    from ttools.cli.inspect.other_triton import comparison_lines, differences
    from ttools.core.compilation.config_matrix import matrix_text

    data = matrix.as_dict()
    if form == "json":
        compared = [
            {"triton": other["triton"], "differences": differences(data, other), "matrix": other}
            for other in others
        ]
        write_json({**data, "compared": compared}, output)
    elif form == "html":
        from ttools.core.compilation.config_matrix_html import matrix_page

        sections = [comparison_lines(data, other, None) for other in others]
        write_text(matrix_page(matrix, sections), output)
    else:
        text = matrix_text(matrix)
        for other in others:
            text += "\n" + "\n".join(comparison_lines(data, other, _MOST_DIFFERENCES)) + "\n"
        write_text(text, output)


def matrix_status(matrix: ConfigMatrix, fail_on: FailOn) -> int:
    """Return the exit status, and say why it is not 0."""
    unusable = matrix.unusable()
    if fail_on == "never":
        return exit_codes.OK
    for kernel, gpu in unusable:
        say(
            "error",
            f"no configuration of {kernel.title} can be launched on {gpu}",
        )
    if unusable:
        return exit_codes.FINDINGS
    if fail_on == "config" and (refused := matrix.refused()):
        say(
            "error",
            f"{len(refused)} of {len(list(matrix.cells()))} compilations cannot be launched",
        )
        return exit_codes.FINDINGS
    return exit_codes.OK
