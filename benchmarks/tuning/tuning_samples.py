"""Files of measured tuning spaces.

`record_spaces.py` writes them; `tune_vs_autotune.py` and replays read them. A kernel's
configurations and their resources are stored once. A row per shape contains the samples of each
configuration in nanoseconds. Configurations that cannot win have null and a reason instead. A row
contains resources of its own if they differ, for example for another head size.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuning_problem import config_of

from ttools.tuner.cost.static_cost import StaticFacts
from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import Candidate, candidates

SCHEMA = "ttools.tuning-samples/2"
#: Number of samples of each configuration that are stored.
KEPT = 9
#: Resources that are stored for each configuration, with their names in `StaticFacts`.
_FACTS = {
    "registers": "registers",
    "spilled": "spilled",
    "shared": "shared",
    "threads": "threads",
    "blocks_per_multiprocessor": "blocks",
}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The measurements of a kernel for one shape.

    Attributes:
        kernel: Name of the problem.
        shape: Sizes by name.
        space: Candidates, in the order of the space.
        samples: Stored samples of each candidate in nanoseconds, by key; empty if it cannot win.
        medians: Median over all samples of each candidate; None if it cannot win.
        facts: Static facts of each candidate, by key; candidates without resources are absent.
    """

    kernel: str
    shape: Mapping[str, int]
    space: Sequence[Candidate]
    samples: Mapping[str, Sequence[int]]
    medians: Mapping[str, int | None]
    facts: Mapping[str, StaticFacts]

    @property
    def costs(self) -> dict[str, float | None]:
        """Return the cost of each candidate, as a search receives it."""
        return dict(self.medians)

    @property
    def best(self) -> float:
        """Return the lowest cost."""
        return min(cost for cost in self.costs.values() if cost is not None)

    def __str__(self) -> str:
        return f"{self.kernel} {'x'.join(map(str, self.shape.values()))} ({len(self.space)})"


def read_samples(path: Path) -> list[Recorded]:
    """Return all rows of a file."""
    data = json.loads(path.read_text())
    if data["schema"] != SCHEMA:
        raise SystemExit(f"{path} has schema {data['schema']}, not {SCHEMA}")
    return [_recorded(data["kernels"][row["kernel"]], row) for row in data["rows"]]


def _recorded(kernel: Mapping[str, Any], row: Mapping[str, Any]) -> Recorded:
    space = candidates([config_of(values) for values in kernel["configs"]])
    keys = [candidate.key for candidate in space]
    resources = row.get("resources") or kernel.get("resources") or [None] * len(keys)
    return Recorded(
        kernel=row["kernel"],
        shape=row["shape"],
        space=space,
        samples={k: s or [] for k, s in zip(keys, row["samples_ns"], strict=True)},
        medians=dict(zip(keys, row["medians_ns"], strict=True)),
        facts={
            key: StaticFacts(**{_FACTS[name]: own[name] for name in _FACTS}, programs=programs)
            for key, own, programs in zip(keys, resources, row["programs"], strict=True)
            if own
        },
    )


class SamplesFile:
    """A file to which rows are added.

    Args:
        path: Path of the file.
        device: Name of the GPU.
        versions: Versions of Triton and torch.
        known: File of the same device and versions whose rows are copied first.
    """

    def __init__(
        self, path: Path, device: str, versions: Mapping[str, str], known: Path | None = None
    ) -> None:
        self._path = path
        head = {"schema": SCHEMA, "device": device, "versions": dict(versions)}
        self._data: dict[str, Any] = {**head, "kernels": {}, "rows": []}
        if known is not None:
            self._data = json.loads(known.read_text())
            if {name: self._data[name] for name in head} != head:
                raise SystemExit(f"{known} is of another device, schema or version than {head}")

    def has(self, kernel: str, shape: Mapping[str, int]) -> bool:
        """Return whether the file contains a shape of a kernel."""
        return any(
            (row["kernel"], row["shape"]) == (kernel, dict(shape)) for row in self._data["rows"]
        )

    def add(
        self,
        kernel: str,
        shape: Mapping[str, int],
        space: Sequence[Candidate],
        trials: Mapping[str, Trial],
        programs: Sequence[int],
        **more: Any,
    ) -> None:
        """Add a row, and write the file.

        Args:
            kernel: Name of the problem.
            shape: Sizes by name.
            space: Candidates, in the order of the space.
            trials: Trial of each candidate, by key.
            programs: Number of programs of the launch with each candidate.
            more: Further entries of the row.
        """
        stored = self._data["kernels"].setdefault(
            kernel, {"configs": [dict(candidate.values) for candidate in space], "resources": []}
        )
        own = [trials[candidate.key] for candidate in space]
        resources = [
            {n: dict(trial.resources)[n] for n in _FACTS} if trial.resources else None
            for trial in own
        ]
        if not any(stored["resources"]):
            stored["resources"] = resources
        elif resources != stored["resources"]:
            more["resources"] = resources
        rejected = {
            place: [trial.status, trial.reason[:80]]
            for place, trial in enumerate(own)
            if trial.status != "ok"
        }
        row = {
            "kernel": kernel,
            "shape": dict(shape),
            "samples_ns": [[round(s * 1e9) for s in trial.samples[:KEPT]] or None for trial in own],
            "medians_ns": [None if t.cost is None else round(t.cost * 1e9) for t in own],
            "programs": list(programs),
            "rejected": rejected,
            **more,
        }
        self._data["rows"].append(row)
        self.write()

    def write(self) -> None:
        """Write the file, with one line per row."""
        head = {name: self._data[name] for name in ("schema", "device", "versions")}
        kernels = [f"{json.dumps(n)}: {json.dumps(k)}" for n, k in self._data["kernels"].items()]
        rows = map(json.dumps, self._data["rows"])
        text = (
            json.dumps(head)[:-1]
            + ',\n"kernels": {\n'
            + ",\n".join(kernels)
            + '\n},\n"rows": [\n'
            + ",\n".join(rows)
            + "\n]}\n"
        )
        self._path.write_text(text)
