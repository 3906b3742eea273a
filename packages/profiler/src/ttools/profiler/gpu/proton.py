"""Runs a session of Proton, Triton's profiler, in parallel with the program's own sessions.

The session continues even if the program ends all of Proton's sessions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ttools.core.errors import UsageError
from ttools.core.patches import Patches
from ttools.profiler.gpu.copies import CopyRecorder
from ttools.profiler.run.origin import Context

Data = Literal["trace", "tree"]
Hook = Literal["triton"]
_SUFFIXES: dict[Data, str] = {"trace": ".chrome_trace", "tree": ".hatchet"}


@dataclass(frozen=True, kw_only=True)
class ProtonOptions:
    """Options for Proton's `start`.

    Attributes:
        context: Grouping of launches: by scopes or by Python's stack.
        data: `trace` times every launch; `tree` keeps sums and costs less.
        backend: Proton's source of times; the GPU's own by default.
        mode: Mode of the backend: `pcsampling` or `periodic_flushing`.
        hook: If `triton`, Proton's file includes metadata of launches.
    """

    context: Context = "shadow"
    data: Data = "trace"
    backend: str | None = None
    mode: str | None = None
    hook: Hook | None = None

    def file(self, stem: Path) -> Path:
        """Return the path of the file that Proton writes for a given stem."""
        return stem.with_name(stem.name + _SUFFIXES[self.data])


@contextmanager
def session(stem: Path, options: ProtonOptions, copies: CopyRecorder) -> Iterator[None]:
    """Run a Proton session during the `with` block, and write its file at the end.

    The program's own sessions run in parallel, and ending all of them does not end this one.

    Args:
        stem: Path of the file without its suffix.
        options: Options of the Proton session.
        copies: Recorder of copies and fills of memory, which Proton does not record.

    Raises:
        UsageError: Proton is not installed or cannot start.
    """
    try:
        proton = importlib.import_module("triton.profiler")
        module = importlib.import_module("triton.profiler.profile")
        flags = importlib.import_module("triton.profiler.flags").flags
    except ImportError as error:
        raise UsageError(f"this Triton has no Proton: {error}") from error
    earlier = bool(flags.profiling_on)
    try:
        with copies.in_front_of_cupti():
            number = proton.start(
                str(stem),
                context=options.context,
                data=options.data,
                backend=options.backend,
                mode=options.mode,
                hook=options.hook,
            )
    except Exception as error:
        raise UsageError(f"Proton cannot start: {type(error).__name__}: {error}") from error
    if number is None:
        raise UsageError("Proton is disabled by TRITON_PROTON_DISABLE")
    try:
        with _spared(module.libproton, number):
            yield
    finally:
        import torch

        # The program itself gets the error of a failed kernel.
        with suppress(RuntimeError):
            torch.cuda.synchronize()
        others = flags.profiling_on
        with suppress(RuntimeError):
            proton.finalize(number)
        copies.end()
        running = bool(_others.get(id(module.libproton)))
        flags.profiling_on = others and (earlier or running)


#: Sessions of the program that started during ours and have not ended.
_others: dict[int, list[int]] = {}
#: Our sessions that are running.
_ours: set[int] = set()


@contextmanager
def _spared(native: Any, own: int) -> Iterator[None]:
    """Exclude our session from Proton's functions that act on all sessions."""
    others = _others.setdefault(id(native), [])

    def starting(original: Callable[..., Any]) -> Callable[..., Any]:
        def start(*words: Any, **options: Any) -> Any:
            number = original(*words, **options)
            others.append(number)
            return number

        return start

    def finalizing(original: Callable[..., Any]) -> Callable[..., Any]:
        def finalize(number: int, *words: Any) -> None:
            original(number, *words)
            if number in others:
                others.remove(number)

        return finalize

    def of_all(single: str) -> Callable[..., None]:
        def act_on_all(*words: Any) -> None:
            # Session numbers increase, so lower numbers belong to earlier sessions.
            for number in sorted({*range(own), *others} - _ours):
                with suppress(RuntimeError):  # it has ended
                    getattr(native, single)(number, *words)
            if single == "finalize":
                others.clear()

        return act_on_all

    _ours.add(own)
    with Patches() as patches:
        patches.callback(lambda: _ours.discard(own))
        patches.wrap(native, "start", starting)
        patches.wrap(native, "finalize", finalizing)
        for name, single in _ALL.items():
            patches.replace(native, name, of_all(single))
        yield


#: Proton's functions that act on all sessions, and the corresponding functions for one session.
_ALL = {"finalize_all": "finalize", "activate_all": "activate", "deactivate_all": "deactivate"}
