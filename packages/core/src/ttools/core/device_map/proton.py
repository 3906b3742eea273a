"""Sessions of Proton, Triton's profiler, while the CPU stands in for a CUDA device.

Proton's library records scopes, metrics and the tree of them without any GPU; only its sources of
kernel times are GPUs' own profilers. So sessions are its own, started on the one source that asks
no GPU, and a launch hook of ours adds how long each launch took. Files, viewer and Proton's Python
functions are Proton's. Must not know how a kernel runs: who runs it notes how long it took.
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

#: What Proton takes for its source of times; it never reaches Proton's library.
BACKEND = "cpu"
#: The source of the library that loads no GPU's profiler, and the mode that it wants to hear.
_QUIET_SOURCE = ("instrumentation", "cuda")


class _ThreadTimes(threading.local):
    """What this thread's launches have reported so far.

    Attributes:
        seconds: what the kernel of the latest launch took; None while none has ended.
        begin: when it began, as `time.perf_counter` has it.
        operations: ids of the operations that Proton is in, innermost last.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.begin = 0.0
        self.operations: list[int] = []


_launches = _ThreadTimes()


def note_launch(seconds: float) -> None:
    """Notes how long a launch's programs ran, without preparing them, on the launching thread."""
    _launches.seconds = seconds


def proton_replacements(profiler: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Every (owner, attribute, value) that makes `triton.profiler` profile the CPU."""
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
        # Tensors among the metrics are read by kernels, where Proton is new enough to take them.
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
                help='leave out backend="instrumentation": launches are timed as a whole',
            )
        if mode:
            raise UnsupportedError(
                f"Proton's mode {mode!r} on the CPU", help="leave out `mode`: launches are timed"
            )
        if data != "tree":
            raise UnsupportedError(
                f"Proton's data {data!r} on the CPU", help='use data="tree": launches have times'
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
    """Names all metrics at the root, where viewers look for those that add up along the tree.

    Proton does so itself, but newer ones only with the metrics of a GPU's profiler.
    """
    try:
        forest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # another format, as the script wished
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
    """A launch hook that adds times to Proton's tree.

    Where Proton's own hook has opened an operation for the launch, with the metrics that the
    kernel's `launch_metadata` gives, the time belongs to that, else to one named as the kernel.
    """

    class TimeHook(hook):  # type: ignore[misc]
        """Proton calls `enter` and `exit` while a session is active."""

        priority = -100  # after all others on the way in, before them on the way out

        def init_handle(self, *args: Any) -> None:
            """Nothing to prepare of a kernel."""

        def activate(self) -> None:
            """Nothing to prepare of a session."""

        def deactivate(self) -> None:
            """Nothing to tidy up."""

        def enter(self, metadata: Any) -> None:
            """A launch begins."""
            _launches.seconds, _launches.begin = None, time.perf_counter()

        def exit(self, metadata: Any) -> None:
            """A launch has ended."""
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
