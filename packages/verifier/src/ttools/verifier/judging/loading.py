"""Loads the files of a verification, with the CPU for a GPU where they ask for one.

Files name CUDA devices as they are loaded, such as for the number of multiprocessors, and so do
functions that draw inputs. Where there is no GPU they are loaded a second time, under the device
map.
"""

from __future__ import annotations

import contextlib

from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.process.worker import Worker
from ttools.verifier.cases.domain import Domain, domain_of
from ttools.verifier.cases.plan import Plan
from ttools.verifier.judging.processes import NotLoadedError, Processes
from ttools.verifier.judging.trial import Trials

_Loaded = tuple[Domain, Trials, list[str]]


def loaded_reference(processes: Processes, seed: int) -> _Loaded:
    """The domain of inputs, what runs cases, and what the files replace of other modules.

    Args:
        processes: where the reference gets its own.

    Raises:
        UsageError: reference or inputs cannot be loaded.
    """
    try:
        found = _reference(processes, is_mapped=False)
        domain, trials, _ = found
        draws = "error" not in trials.drawn(next(Plan(domain, seed).begin()))
        return found if draws or gpu_usable() else _reference(processes, is_mapped=True)
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
    """A process of the candidate.

    Args:
        processes: their device is `cuda` afterwards if the file asks for one.

    Raises:
        NotLoadedError: its file raises.
        WorkerGoneError: loading it ended the process.
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
