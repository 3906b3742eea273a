"""`ttools sanitize --sizes` and `--all-sizes`, deprecated forms of `ttools prove`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ttools.cli.console import say
from ttools.cli.prove.proving import Proving
from ttools.cli.work import Work
from ttools.core.errors import UsageError
from ttools.core.process.script import Target


def prove_instead(
    proving: Proving,
    work: Work | None,
    words: Sequence[str],
    sizes: Sequence[str],
    refused: Mapping[str, object],
    device_map: str | None,
) -> int:
    """Run `ttools prove`, and show the command that replaces the deprecated options.

    Args:
        proving: Options of the proof.
        work: The script of `--all-sizes`; None for the function of `--sizes`.
        words: Words of the command line.
        sizes: Ranges such as `n=1:4096`.
        refused: Options that cannot be combined with `--sizes` or `--all-sizes`, with their values.
        device_map: Mapping of the CUDA devices that a script names.

    Returns:
        The exit status.

    Raises:
        UsageError: One of the refused options is given, or the words do not name a function.
    """
    option = "--sizes" if work is None else "--all-sizes"
    for name, value in refused.items():
        if value:
            raise UsageError(f"{name} cannot be used with {option}")
    if work is None and len(words) != 1:
        raise UsageError("--sizes needs one FILE.py:FUNCTION")
    promises = [word for item in proving.assume for word in ("--assume", item)]
    if work is None:
        instead = [*promises, *words, *sizes]
    else:
        ranges = [word for item in sizes for word in ("--sizes", item)]
        instead = ["--script", *ranges, *promises, *_words_of(work)]
    command = shlex.join(["ttools", "prove", *instead])
    say(
        "note",
        f"`sanitize {option}` is deprecated and will be removed in the next release; use "
        f"`{command}`",
    )
    if work is None:
        return proving.prove_function(words[0], sizes)
    return proving.prove_script(work, sizes, device_map, option)


def _words_of(work: Work) -> list[str]:
    if not isinstance(work, Target):
        return [str(work)]
    option = {"script": [], "module": ["-m"], "code": ["-c"]}[work.kind]
    return [*option, work.name, *work.arguments]
