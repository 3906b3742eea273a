"""The log of a program's launches: written while the program runs, and read afterwards.

The log has one JSON object per line and is flushed after each line, so that it is complete up to
the point of a crash. Each launch is logged with the length of the tool's report, in bytes, before
and after it. This *position* is used to assign errors in the report to launches.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ttools.core.reports.json import argument_data
from ttools.core.reports.reading import argument_of
from ttools.core.spec import (
    ArgumentSpec,
    CallSite,
    CompileOptions,
    LaunchSpec,
    ObjectSpec,
    grid_of,
    memory_spec,
    object_spec,
)
from ttools.core.triton_versions import CompiledKernelFacts

#: Files in the folder of a run: the log, and the report of compute-sanitizer.
LOG = "launches.jsonl"
REPORT = "report.txt"


@dataclass(kw_only=True)
class LogEntry:
    """A launch in the log of a program.

    Attributes:
        spec: The launch. Its tensors' storages are given as addresses, and tuples are flattened.
        function: Name under which the kernel was compiled.
        source: File of its TTIR, in the folder of the run.
        begin: Position of the launch.
        end: Position when the launch had finished; None if the log did not wait for the end.
    """

    spec: LaunchSpec
    function: str
    source: str | None = None
    begin: int = 0
    end: int | None = None


def memory_of(argument: ArgumentSpec) -> tuple[int, int | None] | None:
    """Return the start address of an argument's storage, and its end address if known."""
    if isinstance(argument.value, ObjectSpec) and argument.value.address is not None:
        return argument.value.address, None
    tensor = argument.tensor
    if tensor is None:
        return None
    size = tensor.storage_bytes
    return tensor.storage, None if size is None else tensor.storage + size


def holds(argument: ArgumentSpec, address: int) -> bool:
    """Return whether an address is known to be in an argument's storage."""
    start, end = memory_of(argument) or (0, None)
    return end is not None and start <= address < end


@dataclass(kw_only=True)
class RunLog:
    """The log of one run of a program.

    Attributes:
        launches: Launches, in the order in which they were made.
        status: Exit status of the script; None if a signal or `os._exit` terminated the process.
        failures: Messages of errors that occurred while a launch was logged.
        refusal: Reason why ttools did not run the program completely; None if it did.
        misuse: True if this reason is an error of the user.
    """

    launches: list[LogEntry] = field(default_factory=list)
    status: int | None = None
    failures: list[str] = field(default_factory=list)
    refusal: str | None = None
    misuse: bool = False


# --- writing ----------------------------------------------------------------------------------


class LogWriter:
    """Writes the log of this process.

    Args:
        folder: Folder of the run, to which the tool also writes its report.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = (folder / LOG).open("a", encoding="utf-8", buffering=1)
        self._lock = threading.RLock()
        self._sources: set[str] = set()
        self._launches = 0

    def launch(
        self,
        kernel: CompiledKernelFacts,
        grid: Sequence[int],
        arguments: Sequence[Any],
        *,
        line: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> int:
        """Log a launch that is about to be made, and return its number.

        Args:
            kernel: Facts about the compiled kernel.
            grid: Up to three extents.
            arguments: Values of the kernel's parameters, in order.
            line: `file:line` of the launch in host code.
            config: Configuration chosen by the autotuner, if the launch is autotuned.
        """
        named = zip(kernel.parameters, arguments, strict=False)
        described = [_describe(*part) for name, value in named for part in _flat(name, value)]
        with self._lock:
            number = self._launches
            self._launches += 1
            self._write(
                {
                    "launch": number,
                    "position": self._position(),
                    "kernel": kernel.name,
                    "function": kernel.function,
                    "grid": [int(extent) for extent in (*grid, 1, 1, 1)[:3]],
                    "ctas": kernel.ctas,
                    "line": line,
                    "config": None if config is None else dict(config),
                    "source": None if kernel.ttir is None else self._source(kernel.ttir),
                    "arguments": described,
                }
            )
        return number

    def finished(self, launch: int) -> None:
        """Log that a launch has finished and all its errors are printed."""
        self._write({"finished": launch, "position": self._position()})

    def ended(self, status: int) -> None:
        """Log the exit status of the program."""
        self._write({"status": status})

    def failed(self, failure: str) -> None:
        """Log a message about a launch that could not be logged."""
        self._write({"failure": failure})

    def refused(self, reason: str, *, misuse: bool) -> None:
        """Log why the program was not run, or was not run to its end.

        Args:
            reason: Message of the error, as one sentence.
            misuse: True if the error is the user's, such as a script that does not exist.
        """
        self._write({"refusal": reason, "misuse": misuse})

    def _write(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(entry, default=str) + "\n")

    def _position(self) -> int:
        """Return the current length of the tool's report in bytes."""
        try:
            return (self._folder / REPORT).stat().st_size
        except FileNotFoundError:
            return 0

    def _source(self, ttir: str) -> str:
        """Write TTIR to a file in the folder, if it is new, and return the file's name."""
        name = f"{hashlib.sha256(ttir.encode()).hexdigest()[:24]}.ttir"
        if name not in self._sources:
            (self._folder / name).write_text(ttir, "utf-8")
            self._sources.add(name)
        return name


def _flat(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return the elements of a tuple, named like the parameters that Triton makes of them."""
    if isinstance(value, tuple):
        parts = getattr(value, "_fields", range(len(value)))
        pairs = zip(parts, value, strict=True)
        return [element for part, inner in pairs for element in _flat(f"{name}.{part}", inner)]
    return [(name, value)]


def _describe(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, (bool, int, float)):
        is_finite = not isinstance(value, float) or math.isfinite(value)
        return {"name": name, "dtype": type(value).__name__, "value": value if is_finite else None}
    argument = ArgumentSpec(name=name, value=memory_spec(value) or object_spec(value))
    memory = memory_of(argument)
    if memory is None:
        return {"name": name, "dtype": argument.dtype}
    start, end = memory
    return {**argument_data(argument), "start": start, **({} if end is None else {"end": end})}


# --- reading ----------------------------------------------------------------------------------


def read_log(folder: Path) -> RunLog:
    """Read the log in the folder of a run; an incomplete last line is ignored."""
    log = RunLog()
    by_number: dict[int, LogEntry] = {}
    path = folder / LOG
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if "launch" in entry:
            launch = by_number[entry["launch"]] = _launch(entry)
            log.launches.append(launch)
        elif "finished" in entry and entry["finished"] in by_number:
            by_number[entry["finished"]].end = entry["position"]
        elif "status" in entry:
            log.status = entry["status"]
        elif "refusal" in entry:
            log.refusal, log.misuse = entry["refusal"], entry["misuse"]
        elif "failure" in entry and entry["failure"] not in log.failures:
            log.failures.append(entry["failure"])
    return log


def _launch(entry: dict[str, Any]) -> LogEntry:
    spec = LaunchSpec(
        kernel=entry["kernel"],
        grid=grid_of(entry["grid"]),
        arguments=tuple(map(_argument, entry["arguments"])),
        options=CompileOptions(blocks=entry["ctas"]),
        site=CallSite(line=entry["line"], config=entry["config"]),
    )
    return LogEntry(
        spec=spec, function=entry["function"], source=entry["source"], begin=entry["position"]
    )


def _argument(entry: dict[str, Any]) -> ArgumentSpec:
    if (value := entry.get("value")) is not None:
        return ArgumentSpec(name=entry["name"], value=value)
    argument = argument_of(entry)
    if argument.tensor is not None:
        return replace(argument, value=replace(argument.tensor, storage=entry["start"]))
    return replace(argument, value=ObjectSpec(type=argument.dtype, address=entry.get("start")))
