"""Provides `verify()`, which compares a candidate with its reference for all permitted inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.channel import WorkerGoneError
from ttools.core.process.user_module import split_word
from ttools.core.process.worker import Limits, spawn_worker
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Failure, Verification

__all__ = ["Failure", "Verification", "VerifyOptions", "verify"]


def verify(
    candidate: str | Callable[..., Any],
    reference: str | Callable[..., Any],
    inputs: str | Callable[..., Any],
    *,
    write_tests: str | Path | None = None,
    **options: Any,
) -> Verification:
    """Verify a candidate against its reference; each runs in a separate process.

    Args:
        candidate: Function at the top level of a file, or `FILE.py:NAME`.
        reference: Function that computes the right results, in the same form.
        inputs: Function that returns keyword arguments for both, in the same form. Its domain is
            in `DOMAIN` of its module or in its annotations.
        write_tests: Folder for test files, one for each failure.
        options: Fields of `VerifyOptions` by name.

    Returns:
        The verdict and the failures.

    Raises:
        UsageError: A function is not in a file, cannot be loaded, or has no domain.
        TtoolsError: The process that compares has failed.

    Examples:
        >>> verify(softmax, torch_softmax, inputs).verdict
        'pass'
    """
    try:
        settings = VerifyOptions(**options)
    except TypeError as error:
        raise UsageError(f"verify() has no such option: {error}") from None
    words = {
        "candidate": word_of(candidate, "candidate"),
        "reference": word_of(reference, "reference"),
        "inputs": word_of(inputs, "inputs"),
    }
    folder = None if write_tests is None else str(Path(write_tests).absolute())
    request = {"subject": words, "options": asdict(settings), "write_tests": folder}
    worker = spawn_worker("ttools.verifier.serving:serve", (), Limits(errors="kept"))
    try:
        answer = worker.ask(request)
    except WorkerGoneError as error:
        last = (worker.errors.strip() or str(error)).splitlines()[-1]
        raise TtoolsError(f"the process that compares has failed: {last}") from None
    finally:
        worker.end()
    if "usage" in answer:
        raise UsageError(answer["usage"])
    return Verification.of_dict(answer)


def word_of(function: str | Callable[..., Any], what: str) -> str:
    """Return `FILE.py:NAME` of a function.

    Raises:
        UsageError: There is no such file, or the function is not at the top level of a file.
    """
    if isinstance(function, str):
        file, name = split_word(function)
        return f"{file.resolve()}:{name}"
    source = inspect.getsourcefile(inspect.unwrap(function)) if callable(function) else None
    name = getattr(function, "__qualname__", "<lambda>")
    if source is None or "<" in name:
        raise UsageError(
            f"{what} must be a function at the top of a file, since it runs in a process of its own"
        )
    return f"{Path(source).resolve()}:{name}"
