"""Checks of configuration files: duplicates, names, ties, limits, and unused entries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttools.core import triton_versions
from ttools.core.findings.findings import Finding
from ttools.core.gpus.devices import Gpu, device_called
from ttools.core.gpus.targets import MAX_THREADS
from ttools.core.location import shown_path
from ttools.core.reports.report import config_text, counted
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner.configs.entries import (
    OTHER_OPTIONS,
    ConfigEntry,
    ConfigFile,
    entry_finding,
    file_finding,
    normalised,
)
from ttools.tuner.configs.formats import named_key
from ttools.tuner.space.candidate import candidates, config_key
from ttools.tuner.store.problem import problem_of

#: Maximum number of configurations that a finding about ties names.
_MOST_TIES = 3


# ---- files alone
def check_files(files: Sequence[ConfigFile]) -> list[Finding]:
    """Return the findings about files that can be made without running a program."""
    findings = [finding for file in files for finding in file.findings]
    findings += _duplicates(files)
    findings += _spellings(files)
    for file in files:
        findings += _ties(file)
        findings += (finding for entry in file.entries for finding in _over_own_gpu(entry))
    return findings


def _duplicates(files: Sequence[ConfigFile]) -> Iterator[Finding]:
    """Yield entries for the same key in one folder, and equal choices in one list."""
    first: dict[object, ConfigEntry] = {}
    for file in files:
        for entry in file.entries:
            # A loader reads one folder, which may be specific to one version of Triton.
            scope = file.path.parent if file.form == "named" else file.path
            choice = () if file.is_choice else (entry.config,)
            earlier = first.setdefault((scope, entry.identity, choice), entry)
            if earlier is not entry and not entry.failure:
                yield _duplicate(file, earlier, entry)


def _duplicate(file: ConfigFile, earlier: ConfigEntry, entry: ConfigEntry) -> Finding:
    where = f"line {earlier.line}" if earlier.line else earlier.name
    if earlier.file != entry.file:
        where = f"`{earlier.file.name}`, {where}"
    same = earlier.config == entry.config
    if not file.is_choice:
        what = f"this configuration is also in {where}"
        return entry_finding("config_duplicate", entry, f"{what}, so it is timed twice")
    message = (
        f"{where} has the same key, {'with an equal' if same else 'but another'} configuration"
    )
    notes = [] if same else [f"there: {config_text(earlier.values)}"]
    return entry_finding(
        *("config_duplicate", entry, message),
        notes=notes,
        help="delete one of the two",
        severity="warning" if same else "error",
    )


def _spellings(files: Sequence[ConfigFile]) -> Iterator[Finding]:
    """Yield files whose name spells `block_shape` differently from most in the same folder."""
    folders: dict[Path, list[ConfigFile]] = {}
    for file in files:
        if file.spaced is not None:
            folders.setdefault(file.path.parent, []).append(file)
    for own in folders.values():
        spaced = [file for file in own if file.spaced]
        others = [file for file in own if not file.spaced]
        if not spaced or not others or len(spaced) == len(others):
            continue
        for file in min(spaced, others, key=len):
            spelled, usual = ("a", "none") if file.spaced else ("no", "one")
            yield file_finding(
                *("config_name", file.path),
                f"`{file.path.name}` has {spelled} space in block_shape, whereas the names of the "
                f"other files in this folder have {usual}",
                notes=["vLLM looks for [128,128] and SGLang for [128, 128]"],
                help="rename the file",
            )


def _ties(file: ConfigFile) -> Iterator[Finding]:
    """Yield, for each key, a finding that names the configurations as fast as the chosen one."""
    by_key: dict[object, list[ConfigEntry]] = {}
    for entry in file.entries:
        by_key.setdefault(entry.identity, []).append(entry)
    for entries in by_key.values():
        tied = [entry for entry in entries if entry.is_tied]
        chosen = next((entry for entry in entries if entry.is_chosen), None)
        if tied and chosen is not None:
            names = [config_text(entry.values) for entry in tied[:_MOST_TIES]]
            if len(tied) > _MOST_TIES:
                names.append(f"and {len(tied) - _MOST_TIES} more")
            yield entry_finding(
                *("config_tied", chosen),
                f"{counted(len(tied), 'configuration')} {'is' if len(tied) == 1 else 'are'} as "
                "fast, within the noise of the times in the file",
                notes=names,
            )


def _over_own_gpu(entry: ConfigEntry) -> Iterator[Finding]:
    """Yield a finding if an entry has more threads per block than its file's GPU allows."""
    device = device_called(entry.device) if entry.device else None
    warps = entry.values.get("num_warps", 4)
    if device is not None and warps * device.target.threads > MAX_THREADS:
        yield entry_finding(
            *("config_over_limit", entry),
            f"num_warps={warps} are {warps * device.target.threads:,} threads, but a block of an "
            f"{device.name} has at most {MAX_THREADS:,}",
        )


# ---- files and a program
@dataclass(frozen=True, kw_only=True)
class AutotunedCall:
    """A launch of an autotuned kernel that a program made.

    Attributes:
        kernel: Name of the kernel.
        source: Hash of the kernel's source and of everything that it uses.
        key: The tuning key by name, as it is written in the store.
        key_values: The values of the tuning key, as they are written in Triton's cache.
        configs: Texts of the configurations that the program gives to the autotuner.
        parameters: Names of all parameters of the kernel.
        tuned: Names of the parameters that the program's own configurations set.
        integers: Integer arguments of the launch, by name.
    """

    kernel: str
    source: str
    key: str
    key_values: Sequence[Any]
    configs: frozenset[str]
    parameters: frozenset[str]
    tuned: frozenset[str]
    integers: Mapping[str, int]


@dataclass(kw_only=True)
class AutotunedCalls:
    """The keys and files that a program looked up.

    Attributes:
        program: The program as the user named it.
        is_kernel: True if the program is a kernel with inputs, which does not look up files.
        launches: Distinct launches of autotuned kernels.
        names: Names of the files in the `named` format that the program looked up.
    """

    program: str
    is_kernel: bool = False
    launches: list[AutotunedCall] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)

    def add(self, launch: AutotunedCall) -> None:
        if launch not in self.launches:
            self.launches.append(launch)


def autotuned_call(launch: TunedCall) -> AutotunedCall:
    """Return the key and the parameters of a launch."""
    problem = problem_of(launch, "")
    names = triton_versions.innermost_jit_function(launch.tuner).arg_names
    own = candidates(launch.tuner.configs)
    return AutotunedCall(
        kernel=launch.kernel,
        source=problem.source,
        key=problem.key,
        key_values=launch.key,
        configs=frozenset(config_key(normalised(config.values)) for config in own),
        parameters=frozenset(names),
        tuned=frozenset(name for config in own[:1] for name in config.config.kwargs),
        integers={n: v for n, v in launch.arguments.items() if type(v) is int},
    )


def unused(files: Sequence[ConfigFile], asked: AutotunedCalls) -> tuple[list[Finding], list[str]]:
    """Return entries that match no key of a program, and notes on what cannot be decided."""
    findings: list[Finding] = []
    notes: list[str] = []
    for file in files:
        if file.form == "named":
            findings += _unused_named(file, asked, notes)
        elif file.form == "flaggems":
            findings += _unused_operators(file, asked)
        else:
            findings += _unused_keys(file, asked)
    notes += _missing(files, asked)
    return findings, list(dict.fromkeys(notes))


def _unused_named(file: ConfigFile, asked: AutotunedCalls, notes: list[str]) -> Iterator[Finding]:
    if not asked.is_kernel:
        if not asked.names:
            notes.append(
                f"`{asked.program}` looked up no file whose name has a shape and a device, so it "
                "is not known which keys of such files are used"
            )
        elif file.entries and not any(map(_same_shape(file), asked.names)):
            yield file_finding(
                *("config_unused", file.path),
                f"`{asked.program}` did not look for `{file.path.name}`, for any device",
            )
        return
    if not asked.launches:
        return
    decided = [chosen_for(file, launch) for launch in asked.launches]
    if None in decided:
        names = [name for name in "ENKM" if file.entries and name in file.entries[0].key]
        notes.append(
            f"not each of {', '.join(names)} is an integer parameter of the kernel, so it is not "
            f"known which entries of `{shown_path(str(file.path))}` are used"
        )
        return
    used = {entry.name for entry in decided if isinstance(entry, ConfigEntry)}
    for entry in file.entries:
        if entry.name not in used:
            message = f"no launch of `{asked.program}` selects this entry"
            yield entry_finding("config_unused", entry, message)


def _same_shape(file: ConfigFile) -> Any:
    own = {name: value for name, value in file.entries[0].key.items() if name != "M"}

    def matches(name: str) -> bool:
        try:
            return named_key(name)[0] == own
        except ValueError:
            return False

    return matches


def chosen_for(file: ConfigFile, launch: AutotunedCall) -> ConfigEntry | bool | None:
    """Return the entry of a file in the `named` format that a launch uses.

    A loader takes the entry whose number of rows is nearest to that of the launch.

    Returns:
        False if the file is for a different shape, and None if the kernel has no parameters with
        the names of the shape.
    """
    if not file.entries:
        return False
    key = file.entries[0].key
    shape = [name for name in ("E", "N", "K") if name in key]
    if any(name not in launch.integers for name in (*shape, "M")):
        return None
    if any(launch.integers[name] != key[name] for name in shape):
        return False
    rows = launch.integers["M"]
    return min(file.entries, key=lambda entry: abs(entry.key["M"] - rows))


def _unused_operators(file: ConfigFile, asked: AutotunedCalls) -> Iterator[Finding]:
    operators: dict[str, list[ConfigEntry]] = {}
    for entry in file.entries:
        operators.setdefault(entry.kernel, []).append(entry)
    for operator, entries in operators.items():
        own = {entry.config for entry in entries}
        if not any(own & launch.configs for launch in asked.launches):
            yield file_finding(
                *("config_unused", file.path),
                f"no kernel that `{asked.program}` launches has a configuration of `{operator}`",
                line=entries[0].line,
                kernel=operator,
            )


def _unused_keys(file: ConfigFile, asked: AutotunedCalls) -> Iterator[Finding]:
    """Yield the keys of a cache, a lock file or a store for which there is no launch."""
    reported = set()
    for entry in file.entries:
        if entry.identity in reported:
            continue
        reported.add(entry.identity)
        same = [launch for launch in asked.launches if launch.kernel == entry.kernel]
        if not same:
            message = f"`{asked.program}` launches no autotuned kernel `{entry.kernel}`"
            yield file_finding(
                *("config_unused", file.path, message), line=entry.line, kernel=entry.kernel
            )
            continue
        if not any(has_key(entry, file, launch) for launch in same):
            message = (
                f"`{asked.program}` never launches `{entry.kernel}` with the key {_key(entry)}"
            )
            yield file_finding(
                *("config_unused", file.path, message),
                line=entry.line,
                kernel=entry.kernel,
                notes=[f"it does with {json.dumps(list(same[0].key_values), default=str)}"],
            )
        elif entry.source and all(launch.source != entry.source for launch in same):
            message = f"`{entry.kernel}` has changed since the entry for {_key(entry)} was written"
            yield file_finding(
                *("config_stale", file.path, message),
                line=entry.line,
                kernel=entry.kernel,
                help="tune the kernel again",
            )


def has_key(entry: ConfigEntry, file: ConfigFile, launch: AutotunedCall) -> bool:
    """Return whether an entry applies to the key of a launch."""
    if file.form == "triton":
        return bool(
            json.dumps(entry.key["key"]) == json.dumps(list(launch.key_values), default=str)
        )
    return config_key(entry.key) == config_key(json.loads(launch.key))


def _key(entry: ConfigEntry) -> str:
    if "key" in entry.key:
        return json.dumps(entry.key["key"])
    return config_text(entry.key)


def _missing(files: Sequence[ConfigFile], asked: AutotunedCalls) -> Iterator[str]:
    """Yield the shapes for which a program looked but which no file has."""
    keys = []
    for file in files:
        if file.form == "named" and file.entries:
            keys.append({n: v for n, v in file.entries[0].key.items() if n != "M"})
    if not any(file.form == "named" for file in files):
        return
    for name in asked.names:
        try:
            key = named_key(name)[0]
        except ValueError:
            continue
        if key not in keys:
            yield f"`{asked.program}` looks for `{name}`, and no file has this shape"


# ---- trials
def applicable(entries: Iterable[ConfigEntry], launch: AutotunedCall) -> list[ConfigEntry]:
    """Return the entries that set exactly the parameters that a kernel's own configurations set."""
    return [
        entry
        for entry in entries
        if not entry.failure
        and not any(name in entry.values for name in OTHER_OPTIONS)
        and entry.kernel in ("", launch.kernel, *_operators(entry, launch))
        and frozenset(entry.parameters) == launch.tuned
    ]


def _operators(entry: ConfigEntry, launch: AutotunedCall) -> tuple[str, ...]:
    """Return the operator of an entry if the kernel has the entry's configuration; else nothing."""
    return (entry.kernel,) if entry.config in launch.configs else ()


def unknown_parameters(entry: ConfigEntry, parameters: frozenset[str]) -> list[str]:
    """Return the parameters of an entry that a kernel does not have."""
    return [name for name in entry.parameters if name not in parameters]


def trial_findings(
    statuses: Mapping[str, tuple[str, str]],
    entries: Sequence[ConfigEntry],
    where: str,
    conditions: Mapping[str, str],
) -> list[Finding]:
    """Return findings on entries that failed when they were tried.

    Args:
        statuses: Status and reason of each tried configuration, by the configuration's text.
        entries: The entries that were tried.
        where: The device for which they were tried, such as `on an H100`; empty for this machine.
        conditions: For some statuses, a condition that all configurations with this status meet.
    """
    findings = []
    for entry in entries:
        status, reason = statuses.get(entry.config, ("ok", ""))
        if status in ("ok", "killed"):
            continue
        condition = conditions.get(status)
        words = " ".join(filter(None, [_STATUS_WORDS[status], where]))
        findings.append(
            entry_finding(
                *(f"config_{status}", entry),
                f"{words}: {reason}" if reason else words,
                notes=[condition] if condition else [],
            )
        )
    return findings


_STATUS_WORDS = {
    "over_limit": "it cannot be launched",
    "failed": "it fails",
    "defect": "it has a defect",
    "wrong": "its outputs are wrong",
    "crashed": "it crashes",
    "timed_out": "it does not finish within the time limit",
}


def gpus_of(file: ConfigFile, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs that a file is for: the one that it names, or all if that is not known."""
    device = next((entry.device for entry in file.entries if entry.device), "")
    own = device_called(device) if device else None
    return [gpu for gpu in gpus if own is None or gpu.device is None or gpu.device == own]
