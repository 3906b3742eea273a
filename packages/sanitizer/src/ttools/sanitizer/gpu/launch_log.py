"""The log of a program's launches: what is written while it runs, and read after it.

One JSON object a line, so that a program that crashes leaves what it did. Owns the form of the
lines and what is said of an argument. Must not know who calls it, nor compute-sanitizer's words;
a position is how long the report was when something happened, which is how errors and launches
find together.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ttools.core.findings.findings import Argument
from ttools.core.spec import storage_extent
from ttools.core.triton_versions import CompiledKernelFacts
from ttools.sanitizer.launch.subject import describe

#: In the folder of a run.
LOG = "launches.jsonl"
REPORT = "report.txt"


@dataclass(frozen=True, kw_only=True)
class LoggedArgument:
    """An argument of a launch.

    Attributes:
        description: as findings show it.
        start: first address of the storage of a tensor; None of what is no memory.
        end: the address past that storage.
        value: of a number.
    """

    description: Argument
    start: int | None = None
    end: int | None = None
    value: int | float | bool | None = None

    def holds(self, address: int) -> bool:
        return self.start is not None and self.end is not None and self.start <= address < self.end


@dataclass(kw_only=True)
class Launch:
    """A launch of a kernel.

    Attributes:
        kernel: its Python name.
        function: the name it was compiled under.
        ctas: thread blocks of a program.
        line: `file:line` of the launch in host code.
        config: of the autotuner, if one made the launch.
        source: file of its TTIR, in the folder of the run.
        arguments: of the parameters, tuples flattened.
        begin: position of the launch.
        end: position when it had run; None if that was not waited for.
    """

    kernel: str
    function: str
    grid: tuple[int, int, int]
    ctas: int = 1
    line: str | None = None
    config: Mapping[str, Any] | None = None
    source: str | None = None
    arguments: tuple[LoggedArgument, ...] = ()
    begin: int = 0
    end: int | None = None


@dataclass(kw_only=True)
class LaunchLog:
    """What a program did.

    Attributes:
        status: that it ended with; None if it ended otherwise than a script does.
        failures: what could not be logged.
        refusal: why ttools did not run it to its end; None if it did.
        misuse: whether that is the user's mistake.
    """

    launches: list[Launch] = field(default_factory=list)
    status: int | None = None
    failures: list[str] = field(default_factory=list)
    refusal: str | None = None
    misuse: bool = False


# --- writing ----------------------------------------------------------------------------------


class LaunchLogWriter:
    """Writes the log of this process.

    Args:
        folder: of the run; the report grows in it.
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
        """Writes a launch that is about to be made; returns its number.

        Args:
            grid: up to three extents.
            arguments: one per parameter.
            line: `file:line` of the launch in host code.
            config: of the autotuner, if one makes the launch.
        """
        named = zip(kernel.parameters, arguments, strict=False)
        described = [_describe(*each) for name, value in named for each in _flat(name, value)]
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
        """Writes that a launch has run, and all its errors are printed."""
        self._write({"finished": launch, "position": self._position()})

    def ended(self, status: int) -> None:
        """Writes what the program ended with."""
        self._write({"status": status})

    def failed(self, failure: str) -> None:
        """Writes what could not be logged."""
        self._write({"failure": failure})

    def refused(self, reason: str, *, misuse: bool) -> None:
        """Writes why the program was not run, or not to its end.

        Args:
            reason: a sentence.
            misuse: whether the user asked for what cannot be.
        """
        self._write({"refusal": reason, "misuse": misuse})

    def _write(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(entry, default=str) + "\n")

    def _position(self) -> int:
        try:
            return (self._folder / REPORT).stat().st_size
        except FileNotFoundError:
            return 0

    def _source(self, ttir: str) -> str:
        name = f"{hashlib.sha256(ttir.encode()).hexdigest()[:24]}.ttir"
        if name not in self._sources:
            (self._folder / name).write_text(ttir, "utf-8")
            self._sources.add(name)
        return name


def _flat(name: str, value: Any) -> list[tuple[str, Any]]:
    """A tuple's parts, named as Triton names the parameters that they become."""
    if isinstance(value, tuple):
        parts = getattr(value, "_fields", range(len(value)))
        pairs = zip(parts, value, strict=True)
        return [each for part, inner in pairs for each in _flat(f"{name}.{part}", inner)]
    return [(name, value)]


def _describe(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, (bool, int, float)):
        known = not isinstance(value, float) or math.isfinite(value)
        return {"name": name, "dtype": type(value).__name__, "value": value if known else None}
    # A descriptor is described by the tensor behind it.
    tensor = value if hasattr(value, "data_ptr") else getattr(value, "base", value)
    if not hasattr(tensor, "data_ptr"):
        return {"name": name, "dtype": type(value).__name__}
    described = asdict(describe(name, tensor))
    extent = storage_extent(tensor)
    if extent is None:
        return {**described, "start": int(tensor.data_ptr())}
    return {**described, "start": extent[0], "end": extent[1]}


# --- reading ----------------------------------------------------------------------------------


def read_log(folder: Path) -> LaunchLog:
    """The log in the folder of a run; a last line that was cut off is left out."""
    log = LaunchLog()
    by_number: dict[int, Launch] = {}
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


def _launch(entry: dict[str, Any]) -> Launch:
    launch = msgspec.convert({**entry, "begin": entry["position"], "arguments": ()}, Launch)
    return replace(launch, arguments=tuple(map(_argument, entry["arguments"])))


def _argument(entry: dict[str, Any]) -> LoggedArgument:
    return LoggedArgument(
        description=msgspec.convert(entry, Argument),
        start=entry.get("start"),
        end=entry.get("end"),
        value=entry.get("value"),
    )
