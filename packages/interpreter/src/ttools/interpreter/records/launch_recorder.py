"""Records the launches of a running program: kernels, arguments, and memory before the launch.

Before the program makes a launch, on the CPU or on a GPU, the recorder makes the same launch in a
run of `interpret()`, whose observer records it instead of executing it. Tensors on a GPU are copied
to the host for this purpose.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from ttools.core import inductor, triton_versions
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.context_values import bound
from ttools.core.device_map.graphs.capture import capturing
from ttools.core.environment import gpu_usable
from ttools.core.errors import UnsupportedError, UsageError
from ttools.core.launch_path import CALL, INDUCTOR, observe, take_over
from ttools.core.location import SourceLocation
from ttools.core.patches import Patches
from ttools.core.process.host_line import host_line
from ttools.core.records.excerpts import excerpts_around
from ttools.core.records.launch_record import LaunchRecord, Record, Storage
from ttools.core.records.writing import write_record
from ttools.core.reports.notebook import Part, ShowsItself, Table, Text, host_cells
from ttools.core.spec import ArgumentSpec, TensorSpec, Value
from ttools.interpreter.api import interpret
from ttools.interpreter.backend.tuned_config import follow_configs, is_trial
from ttools.interpreter.records.launch_script import ReplayScript, check_script_path, launch_options
from ttools.interpreter.records.record_contents import Data
from ttools.interpreter.records.storage_list import StorageList
from ttools.interpreter.run.kernel_launch import KernelLaunch, Observer
from ttools.interpreter.runtime import selection
from ttools.interpreter.runtime.launch import LaunchReport

__all__ = ["LaunchRecorder", "record"]

#: True while the recorder makes a launch itself, which must not be recorded again.
_looking: ContextVar[bool] = ContextVar("ttools_recorder_looks", default=False)


@dataclass
class LaunchRecorder(ShowsItself):
    """A context manager that records launches and writes the file at its end; `record` creates it.

    The file contains each launch as a `LaunchSpec`.

    Args:
        path: Path of the file.
        only: Names of the kernels to record; all by default.
        launches: Indices of the launches of these kernels, counted from 0, as in `0,3:5`; the first
            launch of each kernel by default.
        data: Form in which memory is recorded, see `record`.
        script: Path of the script, see `record`; None for none.

    Attributes:
        seen: Number of launches of these kernels so far.
        is_open: True while launches are recorded.
        notes: Reasons why selected launches were not recorded, and differences between recorded and
            original launches.
        script_files: The script, and the file of its tensors if there is one, once written.
    """

    path: Path | None
    only: Sequence[str] | None = None
    launches: str | None = None
    data: Data = "auto"
    script: Path | None = None
    seen: int = field(default=0, init=False)
    notes: list[str] = field(default_factory=list, init=False)
    is_open: bool = field(default=False, init=False)
    script_files: Sequence[Path] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self._taken: list[LaunchRecord] = []
        self._storages: list[Storage] = []
        self._locations: list[SourceLocation] = []
        self._kernels: set[str] = set()
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._written: ReplayScript | None = None
        if self.launches is not None:
            for item in selection.parse(self.launches):
                if item.kind not in ("program", "range"):
                    raise UsageError(
                        f"launches={self.launches!r}: `{item.text}` is neither a number nor a "
                        "range; write, for example, 0,3:5"
                    )

    @property
    def recorded(self) -> int:
        return len(self._taken)

    @property
    def in_script(self) -> int:
        """Return the number of launches in the script."""
        return 0 if self._written is None else self._written.launches

    def _shown(self) -> Iterator[Part]:
        files = " and ".join(str(file) for file in (self.path, self.script) if file is not None)
        title = f"{self.recorded:,} of {self.seen:,} launches, for {files}"
        rows = [
            (
                spec.kernel,
                " x ".join(map(str, spec.grid)),
                ", ".join(
                    f"{argument.name}: {_value_text(argument.value)}" for argument in spec.arguments
                ),
                *host_cells(spec.site.line),
            )
            for spec in (launch.spec for launch in self._taken)
        ]
        yield Table(title, ("kernel", "grid", "arguments", "launched from", "|source"), rows)
        yield from map(Text, self.notes)

    def __enter__(self) -> LaunchRecorder:
        # This imports Triton, which must happen before the module below is imported.
        if triton_versions.take_over_triton_interpret():
            self._say("TRITON_INTERPRET is set; it is ignored, and kernels are recorded")
        from ttools.interpreter.backend.interception import INTERCEPTION

        if gpu_usable():
            # Determine the drivers now, because the program may modify torch while it runs.
            self._open.enter_context(INTERCEPTION)
        else:
            self._open.enter_context(interpret())
        self._watch(self._open.enter_context(Patches()))
        if self.script is not None:
            self._written = ReplayScript()
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False
        self._open.close()
        if self._taken and self.path is not None:
            write_record(self.record(), self.path)
        if self._written is not None and self.script is not None and self._written.launches:
            self.script_files = self._written.write(self.script, self._storages, _versions())

    def record(self) -> Record:
        return Record(
            launches=tuple(self._taken),
            storages=tuple(self._storages),
            excerpts=excerpts_around(self._locations),
            made_by=_versions(),
        )

    # ---- while the program runs

    def _watch(self, patches: Patches) -> None:
        follow_configs(patches)
        observe(patches, CALL, before=self._before)
        take_over(patches, INDUCTOR, self._seen_once)

    def _before(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _looking.get() or is_trial() or kwargs.get("warmup"):
            return
        if capturing() is not None:
            # The launches that replays of the graph make are recorded like other launches.
            self._look(kernel, args, kwargs, _OfReplays(self))
        elif self._wants(_name(kernel)):
            options = launch_options(kernel, kwargs)
            self._look(kernel, args, kwargs, _OfCall(self, options))

    def _seen_once(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap Inductor's launch step so that a launch that also runs Triton's is recorded once."""

        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            self._before(kernel, args, kwargs)
            with bound(_looking, True):
                return run(kernel, *args, **kwargs)

        return launch

    def _wants(self, kernel: str) -> bool:
        if self.only is not None and kernel not in self.only:
            return False
        with self._lock:
            number = self.seen
            self.seen += 1
            is_first = kernel not in self._kernels
            self._kernels.add(kernel)
        return is_first if self.launches is None else _is_chosen(self.launches, number)

    def _look(
        self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], observer: Observer
    ) -> None:
        name = _name(kernel)
        try:
            with bound(_looking, True), interpret(only=[name], observer=observer).unshared():
                kernel.run(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the program's own launch follows regardless
            self._say_not_recorded(name, error)

    def _say_not_recorded(self, name: str, error: Exception) -> None:
        self._say(f"`{name}` is not recorded: {getattr(error, 'what', None) or error}")

    def _say(self, note: str) -> None:
        with self._lock:
            if note not in self.notes:
                self.notes.append(note)

    def launch(
        self, launch: KernelLaunch, options: Mapping[str, Any] | None = None
    ) -> LaunchReport:
        """Record a launch before it is made; implements `Observer`.

        Args:
            options: The launch options that the program passed; None if they are not known.
        """
        if not launch.kernel.variants.addresses.is_empty:
            raise UnsupportedError(
                "it loads addresses from memory, which are valid only in this process"
            )
        with self._lock:
            memory = StorageList(launch, len(self._storages))
            arguments = memory.arguments()
            storages = memory.storages(self.data, sum(storage.size for storage in self._storages))
            self._storages += storages
            taken = _recorded(launch, arguments)
            self._taken.append(taken)
            refused = self._add_to_script(launch, taken, options)
            self._locations += [
                op.location
                for op in launch.kernel.variants.module.walk()
                if op.location is not None
            ]
        if refused is not None:
            self._say(f"`{launch.kernel.name}` is not in {self.script}: {refused}")
        if any(
            storage.filling is not None and storage.filling.kind != "constant"
            for storage in storages
        ):
            self._say(
                f"`{launch.kernel.name}`: memory is recorded as similar random numbers (see --data)"
            )
        return LaunchReport(0, 0.0)

    def _add_to_script(
        self, launch: KernelLaunch, taken: LaunchRecord, options: Mapping[str, Any] | None
    ) -> str | None:
        """Add a launch to the script; if this is not possible, return the reason, else None."""
        if self._written is None:
            return None
        try:
            self._written.add(launch, taken, options)
        except UnsupportedError as error:
            return error.what
        return None


class _OfCall:
    """Records one launch, whose options are known.

    Args:
        options: The launch options that the program passed; None if they are not known.
    """

    def __init__(self, recorder: LaunchRecorder, options: Mapping[str, Any] | None) -> None:
        self._recorder, self._options = recorder, options

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Record the launch before it is made; implements `Observer`."""
        return self._recorder.launch(launch, self._options)


class _OfReplays:
    """Records the launches that replays of a CUDA graph make while the recorder is open."""

    def __init__(self, recorder: LaunchRecorder) -> None:
        self._recorder = recorder

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Record a launch if it is selected; implements `Observer`."""
        recorder = self._recorder
        if recorder.is_open and recorder._wants(launch.kernel.name):
            try:
                return recorder.launch(launch)
            except Exception as error:  # noqa: BLE001 - the program's own launch follows
                recorder._say_not_recorded(launch.kernel.name, error)
        return LaunchReport(0, 0.0)


def record(
    path: str | Path | None = None,
    *,
    only: Sequence[str] | None = None,
    launches: str | None = None,
    data: Literal["full", "seed", "auto"] = "auto",
    script: str | Path | None = None,
) -> LaunchRecorder:
    """Record launches into a file while the returned context is active.

    Args:
        path: Path of the file, by convention `NAME.tt`; None to write only a script.
        only: Names of the kernels to record; all by default.
        launches: Indices of the launches of these kernels, counted from 0, as in `0,3:5`; the first
            launch of each kernel by default.
        data: `full` records the contents of memory. `seed` records a description, from which a
            replay generates similar numbers: integers of the same range, floats of the same mean
            and deviation. `auto` is `full` up to 256 MiB, and always `full` for integers, because
            they may be indices.
        script: Path of a Python file that makes the same launches and needs only Triton and torch;
            None for none. Contents that are neither short nor reproduced by an expression of torch
            are written to a file with the suffix `.pt` next to it.

    Raises:
        UsageError: An argument is invalid; on leaving the context, the file cannot be written.

    Examples:
        >>> with record("launch.tt", only=["softmax_kernel"]):
        ...     softmax(x)
    """
    if isinstance(only, str):
        raise UsageError(f"only={only!r}: must be a list of kernel names, as in only=[{only!r}]")
    if data not in ("full", "seed", "auto"):
        raise UsageError(f"data={data!r}: must be full, seed or auto")
    if path is None and script is None:
        raise UsageError("record() needs a path, or a script, or both")
    if script is not None:
        check_script_path(Path(script))
    return LaunchRecorder(
        None if path is None else Path(path),
        only,
        launches,
        data,
        None if script is None else Path(script),
    )


def _name(kernel: Any) -> str:
    """Return the name of a jit function or of one of Inductor's kernels."""
    return str(getattr(kernel, "__name__", None) or inductor.kernel_name(kernel))


def _value_text(value: Value) -> str:
    if isinstance(value, TensorSpec):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return str(value)


def _is_chosen(launches: str, number: int) -> bool:
    for item in selection.parse(launches):
        start, stop = (*item.numbers, None)[:2]
        if item.kind == "program" and start == number:
            return True
        if item.kind == "range" and (start or 0) <= number < (math.inf if stop is None else stop):
            return True
    return False


# ---- one launch


def _recorded(launch: KernelLaunch, arguments: tuple[ArgumentSpec, ...]) -> LaunchRecord:
    site = replace(launch.site, line=launch.site.line or host_line())
    return LaunchRecord(
        spec=replace(launch.signature, arguments=arguments, site=site),
        ttir=launch.kernel.variants.ttir,
        specialisation=_specialisation(launch),
    )


def _specialisation(launch: KernelLaunch) -> dict[str, str]:
    source = launch.kernel.source
    if source is None:
        return {}
    described = KernelSource(
        name=launch.kernel.name,
        signature=dict(source.signature),
        constants=dict(getattr(source, "constants", {})),
        hints=dict(getattr(source, "attrs", {})),
    )
    return described.parameters()


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    versions = {name: version(name) for name in ("triton", "torch")}
    return {"ttools": version("ttools-interpreter"), **versions, "on": _device()}


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"
