"""Sessions of Proton, Triton's profiler, on a mapped device.

Proton records scopes, metrics and their tree without a GPU. Only its backends, which measure the
times of kernels, need a GPU. Sessions therefore use the one backend that needs none, and a launch
hook adds the time of each launch. The files, the viewer and the Python functions are Proton's own.
"""

from __future__ import annotations

import importlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ttools.core.errors import UnsupportedError

#: Name of the backend in Proton's Python code; it is never passed to Proton's library.
BACKEND = "cpu"
#: The backend of Proton's library that loads no GPU profiler, and the mode that it requires.
_QUIET_SOURCE = ("instrumentation", "cuda")


class _ThreadTimes(threading.local):
    """Times of this thread's launches.

    Attributes:
        seconds: Run time of the latest launch's kernel; None until it has ended.
        begin: Start time, as a value of `time.perf_counter`.
        operations: Ids of Proton's open operations, innermost last.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.begin = 0.0
        self.operations: list[int] = []


_launches = _ThreadTimes()


def note_launch(seconds: float) -> None:
    """Record, on the launching thread, how long a launch's programs ran, without preparation."""
    _launches.seconds = seconds


def proton_replacements(profiler: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) of replacements to make `triton.profiler` profile the CPU."""
    profile, hooks, scopes, launches = (
        importlib.import_module(f"{profiler.__name__}.{name}")
        for name in ("profile", "hooks.hook", "scope", "hooks.launch")
    )
    native = profile.libproton
    yield profile, "_select_backend", lambda: BACKEND
    files: dict[int, Path] = {}
    times = _times(native, hooks.Hook)
    yield native, "start", _starting(native.start, hooks.HookManager, times, files)
    yield native, "finalize", _finalizing(native.finalize, files)
    yield native, "finalize_all", _finalizing_all(native.finalize_all, files)
    yield native, "enter_op", _entering(native.enter_op)
    yield native, "exit_op", _exiting(native.exit_op)
    for module in (scopes, launches):
        # Newer versions of Proton accept tensors as metrics, and launch kernels to read them.
        if hasattr(module, "transform_tensor_metrics"):
            yield module, "set_metric_kernels", lambda: None
            yield module, "transform_tensor_metrics", _as_numbers(module.transform_tensor_metrics)


def _as_numbers(transform: Callable[..., Any]) -> Callable[..., Any]:
    def transform_numbers(metrics: dict[str, Any]) -> Any:
        tensors = {name: value for name, value in metrics.items() if hasattr(value, "data_ptr")}
        read = {n: t.tolist() if t.numel() > 1 else t.item() for n, t in tensors.items()}
        return transform({**metrics, **read})

    return transform_numbers


def _starting(
    begin: Callable[..., Any], manager: Any, times: Any, files: dict[int, Path]
) -> Callable[..., int]:
    def start(name: str, context: str, data: str, backend: str, mode: str = "") -> int:
        if backend == "instrumentation":
            raise UnsupportedError(
                "Proton's instrumentation of kernels on the CPU",
                help='omit backend="instrumentation" to time whole launches',
            )
        if mode:
            raise UnsupportedError(
                f"Proton's mode {mode!r} on the CPU", help="omit `mode` to time launches"
            )
        if data != "tree":
            raise UnsupportedError(
                f"Proton's data {data!r} on the CPU", help='use data="tree" to time launches'
            )
        session = int(begin(name, context, data, *_QUIET_SOURCE))
        manager.register(times, session)
        files[session] = Path(f"{name}.hatchet")
        return session

    return start


def _finalizing(end: Callable[..., None], files: dict[int, Path]) -> Callable[..., None]:
    def finalize(session: int, output_format: str = "") -> None:
        end(session, output_format)
        if session in files:
            _name_metrics(files.pop(session))

    return finalize


def _finalizing_all(end: Callable[..., None], files: dict[int, Path]) -> Callable[..., None]:
    def finalize_all(output_format: str = "") -> None:
        end(output_format)
        while files:
            _name_metrics(files.popitem()[1])

    return finalize_all


def _name_metrics(file: Path) -> None:
    """Add all metrics to the root, where viewers look up which metrics sum up along the tree.

    Proton does this itself, but newer versions do so only for metrics of a GPU profiler.
    """
    try:
        forest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # the script has chosen another format
    pending, names = list(forest[:1]), dict[str, int]()
    while pending:
        node = pending.pop()
        names |= {name: 0 for name in node["metrics"] if not name.endswith("(exc)")}
        pending += node["children"]
    for root in forest[:1]:
        root["metrics"] = {**names, **root["metrics"]}
    file.write_text(json.dumps(forest, indent=1) + "\n", encoding="utf-8")


def _entering(enter: Callable[..., None]) -> Callable[..., None]:
    def enter_op(scope: int, name: str) -> None:
        _launches.operations.append(scope)
        enter(scope, name)

    return enter_op


def _exiting(leave: Callable[..., None]) -> Callable[..., None]:
    def exit_op(scope: int, name: str) -> None:
        if scope in _launches.operations:
            _launches.operations.remove(scope)
        leave(scope, name)

    return exit_op


def _times(native: Any, hook: Any) -> Any:
    """Return a launch hook that adds times to Proton's tree.

    For some launches, Proton's own hook opens an operation, which contains the metrics of the
    kernel's `launch_metadata`. The time is added to this operation if there is one, else to a new
    operation with the name of the kernel.
    """

    class TimeHook(hook):  # type: ignore[misc]
        """A launch hook, which Proton calls for each launch while a session is active."""

        priority = -100  # enter last, exit first

        def init_handle(self, *args: Any) -> None:
            """Do nothing when a kernel is loaded."""

        def activate(self) -> None:
            """Do nothing when a session starts."""

        def deactivate(self) -> None:
            """Do nothing when a session ends."""

        def enter(self, metadata: Any) -> None:
            """Record the start of a launch."""
            _launches.seconds, _launches.begin = None, time.perf_counter()

        def exit(self, metadata: Any) -> None:
            """Add the time of the launch to Proton's tree."""
            seconds = _launches.seconds
            if seconds is None:
                seconds = time.perf_counter() - _launches.begin
            metrics = {"time (ns)": round(seconds * 1e9), "count": 1}
            if _launches.operations:
                native.add_metrics(_launches.operations[-1], metrics)
                return
            scope, name = native.record_scope(), str(metadata.data["name"])
            native.enter_op(scope, name)
            native.add_metrics(scope, metrics)
            native.exit_op(scope, name)

    return TimeHook()
