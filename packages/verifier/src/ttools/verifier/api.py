"""Provides `verify()`, which compares a candidate with its reference for all permitted inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import ttools.verifier.report.notebook  # noqa: F401 (registers the formats of results)
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.findings.findings import Severity
from ttools.core.location import shown_line, shown_path
from ttools.core.process.channel import WorkerGoneError
from ttools.core.process.user_module import require_file, split_word
from ttools.core.process.worker import Limits, spawn_worker
from ttools.core.syntax_trees import defined_names, host_functions
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Failure, Verification

__all__ = ["Failure", "Verification", "VerifyOptions", "verify"]


def verify(
    candidate: str | Callable[..., Any],
    reference: str | Callable[..., Any] | None = None,
    inputs: str | Callable[..., Any] | None = None,
    *,
    write_tests: str | Path | None = None,
    cases: int | None = None,
    seed: int = 0,
    seconds: float | None = None,
    launch_seconds: float = VerifyOptions.launch_seconds,
    answer_seconds: float = VerifyOptions.answer_seconds,
    memory: int = VerifyOptions.memory,
    cpu_seconds: int = VerifyOptions.cpu_seconds,
    network: bool = False,
    shrink: int = VerifyOptions.shrink,
    all_sizes_seconds: float | None = None,
    replay: Literal["on", "off", "required"] = "on",
    replay_seed: int | None = None,
    on: Literal["cpu", "gpu"] = "cpu",
    gpu: str | None = None,
    fail_on: Severity = "error",
    fail_on_torch: bool = False,
) -> Verification:
    """Verify a candidate against its reference; each runs in a separate process.

    Args:
        candidate: Function at the top level of a file, or `FILE.py:NAME`. `FILE.py` stands for the
            function `candidate`, or for the only function of the file that can be one.
        reference: Function that computes the correct results, in the same form; by default
            `reference` in the file of the candidate.
        inputs: Function that returns keyword arguments for both, in the same form; by default
            `inputs` in the file of the candidate. Its domain is in `DOMAIN` of its module or in its
            annotations.
        write_tests: Folder for test files, one for each failure.
        cases: Maximum number of cases, see `VerifyOptions`, which describes all of the following.
        seed: Seed with which the inputs are drawn.
        seconds: Time in seconds after which no new case is begun; by default there is no limit.
        launch_seconds: Time limit of a launch in seconds.
        answer_seconds: Time limit of a call in seconds.
        memory: Bytes that each process may allocate after its start; an answer of a candidate's
            process may use a quarter of them.
        cpu_seconds: Limit of the CPU time of each process of the candidate, in seconds.
        network: If True, the candidate keeps the network of the system.
        shrink: Maximum number of attempts to reduce the inputs of a failure, for each class.
        all_sizes_seconds: Time limit of the check of accesses for all sizes; 0 to skip it.
        replay: Whether calls are repeated in a process without the candidate.
        replay_seed: Seed of random sizes and of the inputs of replays; by default it is drawn from
            the system.
        on: If `gpu`, the candidate also runs on the GPU.
        gpu: Name or architecture of the GPU that the CPU emulates, such as `h100` or `sm_90`.
        fail_on: Lowest severity of findings of the checks that are failures.
        fail_on_torch: If True, the candidate fails if torch completes what its kernels compute.

    Returns:
        The verdict and the failures.

    Raises:
        UsageError: A function is not in a file, cannot be loaded, or has no domain, or an option is
            invalid.
        TtoolsError: The process that compares has failed.

    Examples:
        >>> verify(softmax, torch_softmax, inputs).raise_for_failures()
    """
    settings = VerifyOptions(
        cases=cases,
        seed=seed,
        seconds=seconds,
        launch_seconds=launch_seconds,
        answer_seconds=answer_seconds,
        memory=memory,
        cpu_seconds=cpu_seconds,
        network=network,
        shrink=shrink,
        all_sizes_seconds=all_sizes_seconds,
        replay=replay,
        replay_seed=replay_seed,
        on=on,
        gpu=gpu,
        fail_on=fail_on,
        fail_on_torch=fail_on_torch,
    )
    words = subject_of(candidate, reference, inputs)
    folder = None if write_tests is None else str(Path(write_tests).absolute())
    request = {"subject": words, "options": asdict(settings), "write_tests": folder}
    worker = spawn_worker("ttools.verifier.serving:serve", (), Limits(errors="kept"))
    try:
        answer = worker.ask(request)
    except WorkerGoneError as error:
        last = (worker.errors.strip() or str(error)).splitlines()[-1]
        raise TtoolsError(f"the process that compares the results has failed: {last}") from None
    finally:
        worker.end()
    if "usage" in answer:
        raise UsageError(answer["usage"])
    return replace(Verification.of_dict(answer), candidate=shown_line(words["candidate"]))


def subject_of(
    candidate: str | Callable[..., Any],
    reference: str | Callable[..., Any] | None = None,
    inputs: str | Callable[..., Any] | None = None,
) -> dict[str, str]:
    """Return the functions of a verification as `FILE.py:NAME`; see `verify` for the defaults.

    Raises:
        UsageError: A function is missing, or it is not clear which one is the candidate.
    """
    functions = {"reference": reference, "inputs": inputs}
    others = {key: _word(value, key) for key, value in functions.items() if value is not None}
    if isinstance(candidate, str) and _is_file(candidate):
        candidate = f"{candidate}:{_candidate_in(candidate, others)}"
    chosen = word_of(candidate, "candidate")
    file = chosen.rpartition(":")[0]
    missing = [name for name in ("reference", "inputs") if name not in others]
    names = defined_names(_source(file))
    if absent := [name for name in missing if names is not None and name not in names]:
        shown = shown_path(file)
        listed = " and ".join(f"`{name}`" for name in absent)
        options = " and ".join(f"--{name} FILE.py:NAME" for name in absent)
        raise UsageError(f"`{shown}` does not define {listed}: define it there, or give {options}")
    return {"candidate": chosen, **{name: f"{file}:{name}" for name in missing}, **others}


def _word(function: str | Callable[..., Any], what: str) -> str:
    """Return `FILE.py:NAME` for the reference or inputs; `FILE.py` alone gets the usual name."""
    if isinstance(function, str) and _is_file(function):
        function = f"{function}:{what}"
    return word_of(function, what)


def _is_file(word: str) -> bool:
    """Return whether a text names a whole file, rather than a function in a file."""
    return ":" not in word or Path(word).is_file()


def _source(file: str) -> str:
    try:
        return require_file(file).read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"cannot read `{file}`: {error.strerror}") from error


def _candidate_in(file: str, others: dict[str, str]) -> str:
    """Return the name of the function in a file that is the candidate.

    This is `candidate`, or the only public function at the top level that is neither the reference,
    nor the inputs, nor a Triton kernel.
    """
    source = _source(file)
    if "candidate" in (defined_names(source) or ()):
        return "candidate"
    path = str(Path(file).resolve())
    named = {word.rpartition(":")[2] for word in others.values() if word.startswith(f"{path}:")}
    names = [name for name in host_functions(source) if name not in {"reference", "inputs", *named}]
    if not names:
        raise UsageError(
            f"`{file}` does not define a candidate: name the function, as in {file}:softmax"
        )
    if len(names) > 1:
        raise UsageError(
            f"`{file}` has several functions that could be the candidate ({', '.join(names)}): "
            f"name one, as in {file}:{names[0]}, or call it `candidate`"
        )
    return names[0]


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
            f"{what} must be a module-level function, because it runs in a separate process"
        )
    return f"{Path(source).resolve()}:{name}"
