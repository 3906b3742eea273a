"""Readers of the formats of configuration files.

| format | file | one entry |
|---|---|---|
| `named` | `E=8,N=512,device_name=NVIDIA_H100.json` of vLLM and SGLang | a number of rows (M) |
| `triton` | `KERNEL.autotune.json` in Triton's cache | a configuration that was timed |
| `flaggems` | `tune_configs.yaml` of FlagGems | a configuration to choose from |
| `lock` | a lock file of ttools | the winner for a key |
| `store` | a store of ttools | a configuration that was tried |

If an entry is defective, this is reported as a finding, and the other entries in its file are still
read. The page docs/reference/tune.md names the versions of these projects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from ttools.core.errors import UsageError, file_errors
from ttools.core.findings.findings import Finding
from ttools.core.json_document import parse_json
from ttools.core.reports.report import config_text
from ttools.tuner.configs.entries import ConfigEntry, ConfigFile, entry_finding, file_finding
from ttools.tuner.store.lock import SCHEMA as LOCK_SCHEMA
from ttools.tuner.store.lock import read_lock
from ttools.tuner.store.ranking import is_tied
from ttools.tuner.store.store import TuningStore

#: A pattern for the start of the name of a `named` file, and the name of the entry that contains
#: the version of Triton.
_NAMED = re.compile(r"[EN]=\d+,")
_TRITON_VERSION = "triton_version"
#: The suffix of SGLang's files for the second matrix product, and the name of the key that
#: represents it.
_DOWN, _WITH_DOWN = "_down", "down"
_TRITON_SUFFIX = ".autotune.json"
_SQLITE = b"SQLite format 3\0"
#: Maximum size of a file in bytes. Larger files are not files of configurations, and must not be
#: loaded when a folder is read.
_MOST_BYTES = 64 << 20
#: Maximum number of configurations that a FlagGems item with `gen`, which combines lists, may
#: generate.
_MOST_GENERATED = 100_000
#: The options with which FlagGems launches a kernel if an entry does not set them.
_FLAGGEMS_DEFAULTS = {"num_warps": 4, "num_stages": 2}
#: Maximum of `num_warps`; more warps would exceed the number of threads per block on every GPU.
_MOST_WARPS = 32


def read_config_files(paths: Iterable[Path]) -> list[ConfigFile]:
    """Read the files of configurations at the given paths.

    Args:
        paths: Files, and folders that are searched for files of a known format. Other files in
            these folders are ignored.

    Raises:
        UsageError: A path does not exist, a file has no known format, or a folder contains no file
            of a known format.
    """
    files: dict[Path, ConfigFile] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            read = {file: reader(file) for file in inside if (reader := _reader(file)) is not None}
            if not read:
                raise UsageError(f"`{path}` contains no configuration file; {_FORMATS}")
            files |= read
        elif not path.is_file():
            raise UsageError(f"there is no file or folder `{path}`")
        elif (reader := _reader(path, only_one=True)) is None:
            raise UsageError(f"`{path}` is not a configuration file; {_FORMATS}")
        else:
            files[path] = reader(path)
    return list(files.values())


_FORMATS = (
    "known formats: E=…,N=…,device_name=….json and N=…,K=…,device_name=….json (vLLM, SGLang), "
    "tune_configs.yaml (FlagGems), KERNEL.autotune.json (Triton), lock files and stores of ttools"
)


def is_named(name: str) -> bool:
    """Return whether a file name contains shape and device like names in the `named` format."""
    return _NAMED.match(name) is not None and name.endswith(".json")


def _reader(file: Path, only_one: bool = False) -> Callable[[Path], ConfigFile] | None:
    """Return the function that reads a file; None if the format is unknown.

    Args:
        only_one: True if the user named this file; then its extension alone can identify the
            format.
    """
    if file.name.endswith(_TRITON_SUFFIX):
        return _read_triton
    if is_named(file.name):
        return _read_named
    if file.suffix in (".yaml", ".yml"):
        return _read_flaggems if only_one or "tune_configs" in file.name else None
    with file_errors(f"read `{file}`"), file.open("rb") as stream:
        head = stream.read(256)
    if head.startswith(_SQLITE):
        return _read_store
    return _read_lock if f'"{LOCK_SCHEMA}"'.encode() in head else None


def _text(file: Path) -> str:
    """Return the text of a file.

    Raises:
        ValueError: The file cannot be read, is too long or is not UTF-8.
    """
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise ValueError(str(error.strerror)) from error


def _broken(file: Path, form: str, error: Exception, line: int = 1) -> ConfigFile:
    finding = file_finding("config_unreadable", file, f"the file cannot be read: {error}")
    if line > 1 and finding.location is not None:
        finding = replace(finding, location=replace(finding.location, line=line))
    return ConfigFile(path=file, form=form, findings=[finding])


# ---- vLLM and SGLang
class _Pairs(dict[str, Any]):
    """A JSON object that keeps all values of a name that occurs more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def named_key(name: str) -> tuple[dict[str, Any], str, bool | None]:
    """Return the key, the device and the spelling of `block_shape` in a file's name.

    Args:
        name: Name of the file, such as `E=8,N=512,device_name=NVIDIA_H100_80GB_HBM3.json`.

    Raises:
        ValueError: A part of the name is missing or malformed.
    """
    stem = name.removesuffix(".json")
    key: dict[str, Any] = {}
    if stem.endswith(_DOWN):
        stem, key = stem.removesuffix(_DOWN), {_WITH_DOWN: True}
    device, spaced = "", None
    for part in re.split(r",(?![^\[]*\])", stem):
        word, sign, value = part.partition("=")
        if not sign or not value:
            raise ValueError(f"`{part}` in its name is not NAME=VALUE")
        if word == "device_name":
            device = value.replace("_", " ")
        elif word in ("E", "N", "K"):
            if not value.isdecimal():
                raise ValueError(f"`{part}` in its name is not a number")
            key[word] = int(value)
        elif word == "block_shape":
            shape = re.fullmatch(r"\[(\d+),( ?)(\d+)\]", value)
            if shape is None:
                raise ValueError(f"`{part}` in its name is not [ROWS,COLUMNS]")
            key[word], spaced = [int(shape[1]), int(shape[3])], bool(shape[2])
        else:
            key[word] = value
    if not device:
        raise ValueError("its name has no device_name=…")
    if not ({"E", "N"} <= set(key) or {"N", "K"} <= set(key)):
        raise ValueError("its name must begin with E=…,N=… or N=…,K=…")
    return key, device, spaced


def _read_named(file: Path) -> ConfigFile:
    try:
        key, device, spaced = named_key(file.name)
        text = _text(file)
        data = parse_json(text, _Pairs)
    except ValueError as error:
        line = int(getattr(error, "lineno", 1))
        return _broken(file, "named", error, line)
    if not isinstance(data, _Pairs):
        return _broken(file, "named", ValueError("it must be an object with an entry for each M"))
    lines = _lines(text, re.compile(r'"([^"\n]*)"\s*:\s*(?=\{|\[|"|\d|null|true|false)'))
    entries, findings = [], []
    for name, values in data.pairs:
        line = next(lines.get(name, iter(())), 1)
        if name == _TRITON_VERSION:
            continue
        if not re.fullmatch(r"\d+", name):
            message = f"`{name}` is not a number of rows"
            findings.append(file_finding("config_unreadable", file, message, line=line))
            continue
        entry = ConfigEntry(
            file=file,
            line=line,
            name=f"M={int(name)}",
            key={**key, "M": int(name)},
            device=device,
            values=dict(values) if isinstance(values, dict) else {},
        )
        wrong = list(_wrong_values(entry, values))
        findings += wrong
        entries += [] if wrong else [entry]
    if not entries and not findings:
        findings.append(file_finding("config_unreadable", file, "the file has no entry"))
    return ConfigFile(path=file, form="named", entries=entries, findings=findings, spaced=spaced)


def _lines(text: str, pattern: re.Pattern[str]) -> dict[str, Iterator[int]]:
    """Return the line numbers of a pattern's matches, by the text of the pattern's group."""
    lines: dict[str, list[int]] = {}
    line, position = 1, 0
    for match in pattern.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        lines.setdefault(match[1], []).append(line)
    return {name: iter(numbers) for name, numbers in lines.items()}


def _wrong_values(entry: ConfigEntry, values: Any) -> Iterator[Finding]:
    """Yield findings about values of a configuration that no kernel can use."""
    if not isinstance(values, dict) or not values:
        yield entry_finding("config_unreadable", entry, "the entry is not a configuration")
        return
    for name, value in values.items():
        if not isinstance(value, (bool, int, float, str)) and value is not None:
            message = f"`{name}` is neither a number nor a boolean nor a string"
            yield entry_finding("config_unreadable", entry, message)
    warps, ctas = values.get("num_warps", 4), values.get("num_ctas", 1)
    for name, value in (("num_warps", warps), ("num_ctas", ctas)):
        if type(value) is not int or value < 1 or value & (value - 1):
            yield entry_finding("config_failed", entry, f"{name}={value} is not a power of two")
    stages = values.get("num_stages", 1)
    if type(stages) is not int or stages < 0:
        yield entry_finding("config_failed", entry, f"num_stages={stages} is not a count")
    if type(warps) is int and warps > _MOST_WARPS:
        message = f"num_warps={warps} needs more than 1,024 threads per block"
        yield entry_finding("config_over_limit", entry, message)


# ---- Triton's cache
def _read_triton(file: Path) -> ConfigFile:
    try:
        data = parse_json(_text(file))
        rows = [(dict(config), _times(times)) for config, times in data["configs_timings"]]
        key = [*data["key"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = error if isinstance(error, ValueError) else _NOT_A_CACHE
        return _broken(file, "triton", ValueError(why), int(getattr(error, "lineno", 1)))
    kernel = file.name.removesuffix(_TRITON_SUFFIX)
    usable = [times for _, times in rows if math.isfinite(times[0])]
    best = min(usable, default=(math.inf, math.inf, math.inf))
    entries: list[ConfigEntry] = []
    findings: list[Finding] = []
    # Triton writes the file as a single line, so the line number says nothing about an entry.
    for number, (config, times) in enumerate(rows, 1):
        own = config.get("kwargs")
        if not isinstance(own, dict):
            return _broken(file, "triton", ValueError(_NOT_A_CACHE))
        options = {n: config[n] for n in _TRITON_OPTIONS if config.get(n) is not None}
        chosen = times == best and not any(entry.is_chosen for entry in entries)
        entry = ConfigEntry(
            file=file,
            line=0,
            name=f"configuration {number}",
            kernel=kernel,
            key={"key": key},
            values={**own, **options},
            is_chosen=chosen,
            # The times are the median and the 20% and 80% quantiles.
            is_tied=not chosen and times[1] <= best[2] and math.isfinite(times[0]),
            failure="" if math.isfinite(times[0]) else "Triton could not run it",
        )
        wrong = list(_wrong_values(entry, entry.values))
        findings += wrong
        entries += [] if wrong else [entry]
    if not usable:
        message = f"none of the {len(rows)} configurations for this key could run"
        findings.append(file_finding("config_failed", file, message, line=0, kernel=kernel))
    return ConfigFile(path=file, form="triton", entries=entries, findings=findings, is_choice=False)


_NOT_A_CACHE = "it is not a result of triton.autotune: it needs `key` and `configs_timings`"
_TRITON_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")


def _times(times: Any) -> tuple[float, float, float]:
    """Return the median and two quantiles in milliseconds; a single time is used for all three."""
    values = [float(time) for time in (times if isinstance(times, list) else [times])]
    if len(values) not in (1, 3) or any(math.isnan(value) for value in values):
        raise ValueError(f"`{times}` is neither one time nor three times")
    return values[0], values[-2] if len(values) == 3 else values[0], values[-1]


# ---- FlagGems
def _read_flaggems(file: Path) -> ConfigFile:
    try:
        node = yaml.compose(_text(file), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return _broken(
            file,
            "flaggems",
            ValueError(error.problem or "invalid YAML"),
            mark.line + 1 if mark else 1,
        )
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        return _broken(file, "flaggems", error)
    if not isinstance(node, yaml.MappingNode):
        return _broken(file, "flaggems", ValueError("it must map operators to configurations"))
    entries: list[ConfigEntry] = []
    findings: list[Finding] = []
    lines: dict[str, int] = {}
    for name_node, value_node in node.value:
        operator, line = str(name_node.value), name_node.start_mark.line + 1
        if operator in lines:
            message = f"`{operator}` occurs twice; only the later entries are used"
            findings.append(
                file_finding(
                    *("config_duplicate", file, message),
                    line=line,
                    kernel=operator,
                    notes=[f"the first one is in line {lines[operator]}"],
                    severity="error",
                )
            )
            entries = [entry for entry in entries if entry.kernel != operator]
        lines[operator] = line
        if not isinstance(value_node, yaml.SequenceNode):
            message = f"the entry of `{operator}` is not a list of configurations"
            findings.append(
                file_finding("config_unsupported", file, message, line=line, kernel=operator)
            )
            continue
        for item in value_node.value:
            line = item.start_mark.line + 1
            try:
                configs = list(_flaggems_configs(_value(item)))
            except ValueError as error:
                kind = "config_unsupported" if isinstance(error, _UnknownFormError) else None
                message = f"`{operator}`: {error}"
                findings.append(
                    file_finding(
                        kind or "config_unreadable", file, message, line=line, kernel=operator
                    )
                )
                continue
            for values in configs:
                number = sum(entry.kernel == operator for entry in entries)
                entry = ConfigEntry(
                    file=file,
                    line=line,
                    name=f"{operator}[{number}]",
                    kernel=operator,
                    values={**_FLAGGEMS_DEFAULTS, **values},
                )
                wrong = list(_wrong_values(entry, entry.values))
                findings += wrong
                entries += [] if wrong else [entry]
    return ConfigFile(
        path=file, form="flaggems", entries=entries, findings=findings, is_choice=False
    )


def _value(node: Any) -> Any:
    """Return the value of a YAML node.

    Raises:
        ValueError: The value is not plain data.
    """
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, RecursionError, TypeError) as error:
        raise ValueError(str(error).partition("\n")[0]) from error
    finally:
        loader.dispose()


class _UnknownFormError(ValueError):
    """The form of a FlagGems item is not supported."""


def _flaggems_configs(item: Any) -> Iterator[dict[str, Any]]:
    """Yield the configurations of an item: itself, or all combinations of its lists.

    Raises:
        ValueError: The item is malformed.
    """
    if not isinstance(item, dict):
        raise ValueError("an item is not a mapping")
    if not item.get("gen"):
        if not isinstance(item.get("META"), dict):
            raise _UnknownFormError("an item without META is not supported")
        options = {name: value for name, value in item.items() if name not in ("META", "gen")}
        if any(isinstance(value, (dict, list)) for value in options.values()):
            raise _UnknownFormError("an item with lists or mappings next to META is not supported")
        yield {**item["META"], **options}
        return
    sources = item.get("param_map")
    if not isinstance(sources, dict) or "META" not in sources:
        raise ValueError("a `gen` item needs a param_map with META")
    meta = sources["META"]
    choices: list[list[dict[str, Any]]] = []
    if isinstance(meta, dict):
        choices += [[{name: v} for v in _choices(item, source)] for name, source in meta.items()]
    else:
        blocks = _choices(item, meta)
        if not all(isinstance(block, dict) for block in blocks):
            raise ValueError(f"`{meta}` is not a list of mappings")
        choices.append(blocks)
    choices += [
        [{name: v} for v in _choices(item, source)]
        for name, source in sources.items()
        if name != "META"
    ]
    if math.prod(map(len, choices)) > _MOST_GENERATED:
        raise ValueError(f"it generates more than {_MOST_GENERATED:,} configurations")
    for parts in product(*choices):
        yield {name: value for part in parts for name, value in part.items()}


def _choices(item: Mapping[str, Any], source: Any) -> list[Any]:
    """Return the values of a parameter, given as a number, a list or the name of a list."""
    if isinstance(source, str):
        if source not in item:
            raise ValueError(f"param_map names `{source}`, which the item does not define")
        listed = item[source]
        if not isinstance(listed, list):
            raise ValueError(f"`{source}` must be a list")
        return listed
    return list(source) if isinstance(source, list) else [source]


# ---- ttools
def _read_lock(file: Path) -> ConfigFile:
    try:
        lock = read_lock(file)
    except UsageError as error:
        return _broken(file, "lock", error)
    entries = []
    lines = list(_lines(_text(file), re.compile(r'"(config)"\s*:')).get("config", ()))
    for number, (problem, values) in enumerate(lock.winners.items()):
        entries.append(
            ConfigEntry(
                file=file,
                line=lines[number] if number < len(lines) else 1,
                name=str(problem),
                kernel=problem.kernel,
                key=problem.key_values,
                device=problem.device,
                values=values,
                source=problem.source,
            )
        )
    findings = [finding for entry in entries for finding in _wrong_values(entry, entry.values)]
    return ConfigFile(path=file, form="lock", entries=entries, findings=findings)


def _read_store(file: Path) -> ConfigFile:
    try:
        store = TuningStore(file, create=False)
        try:
            tunings = store.entries()
        finally:
            store.close()
    except UsageError as error:
        return _broken(file, "store", error)
    entries = [
        ConfigEntry(
            file=file,
            line=0,
            name=str(tuning.problem),
            kernel=tuning.problem.kernel,
            key=tuning.problem.key_values,
            device=tuning.problem.device,
            values=trial.values,
            is_chosen=trial.key == tuning.winner,
            is_tied=is_tied(tuning, trial),
            failure="" if trial.status == "ok" else (trial.reason or trial.status),
            source=tuning.problem.source,
        )
        for tuning in tunings
        for trial in tuning.trials
    ]
    without = [tuning for tuning in tunings if tuning.trials and tuning.winner is None]
    findings = [
        file_finding(
            *("config_failed", file, f"{tuning.problem}: no configuration can win"),
            line=0,
            kernel=tuning.problem.kernel,
            notes=[config_text(trial.values) for trial in tuning.trials[:1]],
        )
        for tuning in without
    ]
    return ConfigFile(path=file, form="store", entries=entries, findings=findings, is_choice=False)
