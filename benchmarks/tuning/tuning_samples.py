"""Files of timed spaces: what `record_spaces.py` and `tune_vs_autotune.py` write and replays read.

A kernel's configurations and their resources are written once, then a row per shape has the samples
of each configuration, in nanoseconds; null and a reason for what cannot win. A row has resources of
its own where they are others, as for another size of heads.
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
#: Samples that are published of each configuration.
KEPT = 9
#: What is kept of a configuration's resources, and what `StaticFacts` calls it.
_FACTS = {
    "registers": "registers",
    "spilled": "spilled",
    "shared": "shared",
    "threads": "threads",
    "blocks_per_multiprocessor": "blocks",
}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """All that was timed of a kernel for a shape.

    Attributes:
        kernel: name of the problem.
        shape: sizes by name.
        space: the candidates.
        samples: of each candidate in nanoseconds, by key; empty for what cannot win. At most so
            many as are published.
        medians: of all samples of each candidate; None for what cannot win.
        facts: of each candidate, by key; empty where unknown.
    """

    kernel: str
    shape: Mapping[str, int]
    space: Sequence[Candidate]
    samples: Mapping[str, Sequence[int]]
    medians: Mapping[str, int | None]
    facts: Mapping[str, StaticFacts]

    @property
    def costs(self) -> dict[str, float | None]:
        """What a search is told of each candidate."""
        return dict(self.medians)

    @property
    def best(self) -> float:
        """The least of them."""
        return min(cost for cost in self.costs.values() if cost is not None)

    def __str__(self) -> str:
        return f"{self.kernel} {'x'.join(map(str, self.shape.values()))} ({len(self.space)})"


def read_samples(path: Path) -> list[Recorded]:
    """All rows of a file."""
    data = json.loads(path.read_text())
    if data["schema"] != SCHEMA:
        raise SystemExit(f"{path} has schema {data['schema']}, not {SCHEMA}")
    return [_recorded(data["kernels"][row["kernel"]], row) for row in data["rows"]]


def _recorded(kernel: Mapping[str, Any], row: Mapping[str, Any]) -> Recorded:
    space = candidates([config_of(values) for values in kernel["configs"]])
    keys = [each.key for each in space]
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
    """A file that grows by rows.

    Args:
        path: of the file.
        device: what timed.
        versions: of Triton and torch.
        known: a file of the same device and versions, whose rows it has from the start.
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
        """Whether a shape was timed."""
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
        """Adds a row, and writes the file.

        Args:
            kernel: name of the problem.
            shape: sizes by name.
            space: the candidates.
            trials: of all of them, by key.
            programs: of the launch with each of them.
            more: kept with the row.
        """
        known = self._data["kernels"].setdefault(
            kernel, {"configs": [dict(each.values) for each in space], "resources": []}
        )
        own = [trials[each.key] for each in space]
        resources = [
            {n: dict(trial.resources)[n] for n in _FACTS} if trial.resources else None
            for trial in own
        ]
        if not any(known["resources"]):
            known["resources"] = resources
        elif resources != known["resources"]:
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
        """Writes the file, a row a line."""
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
