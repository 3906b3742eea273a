"""Writes the winners and times of a store in the formats of other projects.

Each function returns the files of one format, by their path relative to a folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from ttools.core.errors import UsageError
from ttools.core.json_document import json_text
from ttools.tuner.configs.entries import LAUNCH_OPTIONS
from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.ranking import estimate, ranked, samples, winning_trial
from ttools.tuner.store.store import TuningEntry

_GPU = re.compile(r"(?:cuda|hip): (?P<name>.+) \(\w+\)")
_TRITON = re.compile(r"triton (?P<version>[\w.+]+)")
#: Names of the two numbers that form the shape of a quantisation block in vLLM's kernels.
_BLOCK = ("group_n", "group_k")


def vllm_files(entries: Sequence[TuningEntry]) -> dict[str, str]:
    """Return a file in vLLM's format for each shape and GPU, with the winner per number of rows.

    Raises:
        UsageError: A key lacks M, or has neither E and N nor N and K, or a device is not a GPU.
    """
    files: dict[str, dict[str, Any]] = {}
    for problem, name, rows, values in _rows(entries, ","):
        first = {"triton_version": _triton(problem)}
        files.setdefault(f"{name}.json", first)[rows] = values
    return {name: _by_rows(data) for name, data in files.items()}


def sglang_files(entries: Sequence[TuningEntry]) -> dict[str, str]:
    """Return a file for each shape and GPU in SGLang's format, in a folder per version of Triton.

    Raises:
        UsageError: A key lacks M, or has neither E and N nor N and K, or a device is not a GPU.
    """
    files: dict[str, dict[str, Any]] = {}
    for problem, name, rows, values in _rows(entries, ", "):
        folder = f"triton_{_triton(problem).partition('+')[0].replace('.', '_')}"
        files.setdefault(f"{folder}/{name}.json", {})[rows] = values
    return {name: _by_rows(data) for name, data in files.items()}


def _by_rows(data: Mapping[str, Any]) -> str:
    """Return the text of a file, with the entries sorted by their numbers of rows."""
    order = sorted(data.items(), key=lambda pair: int(pair[0]) if pair[0].isdecimal() else -1)
    return json_text(dict(order))


def _rows(
    entries: Sequence[TuningEntry], separator: str
) -> Iterator[tuple[Problem, str, str, dict[str, Any]]]:
    """Yield the problem, the file name without extension, the number of rows and the winner."""
    for entry in entries:
        best = winning_trial(entry)
        if best is None:
            continue
        problem = entry.problem
        key = {
            name.upper() if name.upper() in ("E", "N", "K", "M") else name: value
            for name, value in problem.key_values.items()
        }
        shape = ("E", "N") if "E" in key else ("N", "K")
        if any(type(key.get(name)) is not int for name in (*shape, "M")):
            raise UsageError(
                f"{problem}: the key needs numbers M and {' and '.join(shape)} for this format, "
                f"and has {', '.join(problem.sizes) or 'none'}"
            )
        parts = [f"{name}={key[name]}" for name in shape]
        parts.append(f"device_name={_device(problem)}")
        if dtype := _dtype(problem):
            parts.append(f"dtype={dtype}")
        if all(type(key.get(name)) is int and key[name] > 0 for name in _BLOCK):
            block = separator.join(str(key[name]) for name in _BLOCK)
            parts.append(f"block_shape=[{block}]")
        yield problem, ",".join(parts), str(key["M"]), _plain(best)


def _plain(trial: Trial) -> dict[str, Any]:
    """Return the values of a configuration without the default number of CTAs."""
    values = {name: value for name, value in trial.values.items() if value is not None}
    if values.get("num_ctas") == 1:
        del values["num_ctas"]
    return values


def _device(problem: Problem) -> str:
    """Return the name of the GPU as it appears in file names.

    Raises:
        UsageError: The times were not measured on a GPU.
    """
    match = _GPU.fullmatch(problem.device)
    if match is None:
        raise UsageError(
            f"{problem}: it was tuned for `{problem.device}`, but file names of this format "
            "contain the name of the GPU on which times were measured"
        )
    return re.sub(r"[\s/]+", "_", match["name"])


def _dtype(problem: Problem) -> str:
    """Return the part of a file name for the dtypes of the operands; empty for 16-bit floats.

    The first two tensors of a product are its operands.
    """
    first, second = [*problem.key_values["dtypes"], "", ""][:2]
    if "float8" in first and "float8" in second:
        return "fp8_w8a8"
    if (first, second) == ("int8", "int8"):
        return "int8_w8a8"
    if second == "int8":
        return "int8_w8a16"
    return "float32" if first == "float32" else ""


def _triton(problem: Problem) -> str:
    match = _TRITON.search(problem.versions)
    return match["version"] if match else "unknown"


def triton_files(entries: Sequence[TuningEntry]) -> dict[str, str]:
    """Return a result file of `triton.autotune` for each key, with all times in milliseconds."""
    files = {}
    for entry in entries:
        problem = entry.problem
        dtypes = [f"torch.{dtype}" for dtype in problem.key_values["dtypes"]]
        key = [value for name, value in problem.key_values.items() if name != "dtypes"]
        data = {
            "key": [*key, *dtypes],
            "configs_timings": [
                [_triton_config(trial.values), _milliseconds(entry, trial)]
                for trial in ranked(entry)
            ],
        }
        digest = hashlib.sha256(f"{problem.key}{problem.device}".encode()).hexdigest()[:8]
        name = f"{problem.kernel[:150]}.autotune.json"
        files[f"{problem.kernel}-{digest}/{name}"] = json.dumps(data, default=str) + "\n"
    return files


def _triton_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a `triton.Config`."""
    own = {n: v for n, v in values.items() if n not in (*LAUNCH_OPTIONS, "ir_override")}
    return {
        "kwargs": own,
        "num_warps": values.get("num_warps", 4),
        "num_ctas": values.get("num_ctas", 1),
        "num_stages": values.get("num_stages", 3),
        "maxnreg": values.get("maxnreg"),
        "pre_hook": None,
        "ir_override": values.get("ir_override"),
    }


def _milliseconds(entry: TuningEntry, trial: Trial) -> list[float]:
    """Return the median and the 20% and 80% quantiles; infinities if this entry cannot win."""
    seconds = estimate(entry, trial)
    if seconds is None:
        return [math.inf] * 3
    timed = samples(entry, trial)
    if len(timed) < 2:
        return [1e3 * seconds] * 3
    fifths = statistics.quantiles(timed, n=5, method="inclusive")
    return [1e3 * seconds, 1e3 * fifths[0], 1e3 * fifths[-1]]


def flaggems_files(entries: Sequence[TuningEntry]) -> dict[str, str]:
    """Return a file with the distinct winners of each kernel, as FlagGems operator choices."""
    operators: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        best = winning_trial(entry)
        if best is None:
            continue
        values = _plain(best)
        item = {
            "META": {n: v for n, v in values.items() if n not in LAUNCH_OPTIONS},
            **{n: v for n, v in values.items() if n in ("num_warps", "num_stages", "num_ctas")},
        }
        choices = operators.setdefault(entry.problem.kernel, [])
        if item not in choices:
            choices.append(item)
    return {"tune_configs.yaml": yaml.safe_dump(operators, sort_keys=False)} if operators else {}


#: Functions by the name of the format.
WRITERS: dict[str, Callable[[Sequence[TuningEntry]], dict[str, str]]] = {
    "vllm": vllm_files,
    "sglang": sglang_files,
    "flaggems": flaggems_files,
    "triton": triton_files,
}
