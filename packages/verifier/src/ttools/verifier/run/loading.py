"""Loads the files of a verification, with the CPU in place of a GPU if they need one.

Files may use a CUDA device while they are loaded, for example to read the number of
multiprocessors. Functions that draw inputs may also use one. If this fails and there is no GPU, the
files are loaded again under the device map.
"""

from __future__ import annotations

import contextlib

from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.process.worker import Worker
from ttools.verifier.cases.domain import Domain, domain_of
from ttools.verifier.cases.plan import Plan
from ttools.verifier.run.processes import NotLoadedError, Processes
from ttools.verifier.run.trial import Trials

_Loaded = tuple[Domain, Trials, list[str]]


def loaded_reference(processes: Processes, seed: int) -> _Loaded:
    """Return the domain, the object that runs cases, and the library functions that files replace.

    Args:
        processes: Starts the reference's process.
        seed: Seed of the plan; the plan's first case is drawn to test the files.

    Raises:
        UsageError: The reference or the inputs cannot be loaded.
    """
    try:
        loaded = _reference(processes, is_mapped=False)
        domain, trials, _ = loaded
        draws = "error" not in trials.drawn(next(Plan(domain, seed).begin()))
        return loaded if draws or gpu_usable() else _reference(processes, is_mapped=True)
    except UsageError:
        if not gpu_usable():
            with contextlib.suppress(UsageError):
                return _reference(processes, is_mapped=True)
        raise


def _reference(processes: Processes, *, is_mapped: bool) -> _Loaded:
    worker, loaded = processes.reference(is_mapped=is_mapped)
    domain = domain_of(loaded["domain"])
    return domain, Trials(worker, domain, loaded), loaded["patched"]


def loaded_candidate(processes: Processes) -> Worker:
    """Start a process of the candidate.

    Args:
        processes: Starts the process; if the file needs CUDA, its `device` is `cuda` afterwards.

    Raises:
        NotLoadedError: The candidate's file raises an exception.
        WorkerGoneError: The process ended while it loaded the file.
    """
    try:
        return processes.fresh()
    except NotLoadedError:
        if gpu_usable():
            raise
        processes.device = "cuda"
        with contextlib.suppress(NotLoadedError):
            return processes.fresh()
        processes.device = "cpu"
        raise
