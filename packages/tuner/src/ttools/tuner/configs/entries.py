"""Configurations in files, and findings about them, independent of the format of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttools.core.findings.findings import Finding, Severity
from ttools.core.location import SourceLocation
from ttools.core.reports.report import Rule, config_text
from ttools.tuner.space.candidate import config_key

#: Name of the check in findings.
CHECK = "tune check"
_PAGE = "reference/tune.md#check-configuration-files"
#: Severity and meaning of each kind of finding.
_KINDS: dict[str, tuple[Severity, str]] = {
    "config_unreadable": ("error", "A file or an entry cannot be read."),
    "config_unsupported": ("note", "An entry has a form that is not checked."),
    "config_duplicate": ("warning", "Two entries are for the same key, or are equal."),
    "config_name": ("warning", "The program looks for a file with another name."),
    "config_unused": ("warning", "The program uses no key that the entry is for."),
    "config_stale": ("warning", "The kernel has changed since the entry was written."),
    "config_unknown_parameter": ("error", "The kernel has no parameter of this name."),
    "config_over_limit": ("error", "The GPU cannot launch the configuration."),
    "config_failed": ("error", "The configuration does not compile, or raises an exception."),
    "config_defect": ("error", "The sanitizer finds an error in the configuration."),
    "config_wrong": ("error", "The outputs of the configuration are wrong."),
    "config_crashed": ("error", "The configuration crashes the process that runs it."),
    "config_timed_out": ("error", "The configuration exceeds the time limit."),
    "config_tied": ("note", "Other configurations are as fast as the chosen one."),
}
#: The kinds as reports describe them.
RULES = {
    kind: Rule(meaning, page=_PAGE, can_be_suppressed=False)
    for kind, (_, meaning) in _KINDS.items()
}
#: Launch options of Triton's NVIDIA and AMD backends; other names are parameters of the kernel.
LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
#: Options of other backends: options of AMD's backend, and one option of Hygon's.
OTHER_OPTIONS = ("waves_per_eu", "matrix_instr_nonkdim", "kpack", "num_ldmatrixes")
#: The options of a launch that does not set them, see `triton.Config`.
_DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}


@dataclass(frozen=True, kw_only=True)
class ConfigEntry:
    """A configuration in a file.

    Attributes:
        file: The file as the user named it.
        line: Line of the entry in the file; 0 if line numbers of the file are meaningless.
        name: Name of the entry within its file, such as `M=16` or `mm[3]`.
        kernel: Name of the kernel or operator; empty if the file does not give it.
        key: Values for which the configuration is meant, by name.
        device: Name of the GPU as its driver reports it; empty if the file does not give it.
        values: Parameters and launch options of the configuration.
        is_chosen: True if a program that reads the file uses this configuration; False if it uses a
            different configuration for the same key.
        is_tied: True if its recorded time does not differ from that of the chosen configuration.
        failure: Reason, as recorded in the file, why the configuration cannot be used.
        source: Hash of the kernel source for which the entry was written; empty if unknown.
    """

    file: Path
    line: int = 1
    name: str
    kernel: str = ""
    key: Mapping[str, Any] = field(default_factory=dict)
    device: str = ""
    values: Mapping[str, Any]
    is_chosen: bool = True
    is_tied: bool = False
    failure: str = ""
    source: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the kernel's own parameters."""
        options = (*LAUNCH_OPTIONS, *OTHER_OPTIONS)
        return {name: value for name, value in self.values.items() if name not in options}

    @property
    def identity(self) -> tuple[str, str, str]:
        """The kernel, key and device for which the entry is meant."""
        return self.kernel, config_key(self.key), self.device

    def triton_config(self, pre_hook: Any = None) -> Any:
        """Return the entry as a `triton.Config`, without options that have no value."""
        import triton

        values = {name: value for name, value in self.values.items() if value is not None}
        return triton.Config(
            {name: value for name, value in values.items() if name not in LAUNCH_OPTIONS},
            **{name: value for name, value in values.items() if name in LAUNCH_OPTIONS},
            pre_hook=pre_hook,
        )

    @property
    def config(self) -> str:
        """A text that is equal for configurations that make equal launches."""
        return config_key(normalised(self.values))

    def __str__(self) -> str:
        return f"{self.name} ({config_text(self.values)})"


@dataclass(frozen=True, kw_only=True)
class ConfigFile:
    """A file of configurations.

    Attributes:
        path: The file as the user named it.
        form: Name of the format.
        entries: The entries that could be read.
        findings: Findings about the text of the file.
        is_choice: True if the file gives one configuration for each key; False if it lists
            configurations to choose from.
        spaced: True if the file name has a space in `block_shape`; None if it has no `block_shape`.
    """

    path: Path
    form: str
    entries: Sequence[ConfigEntry] = ()
    findings: Sequence[Finding] = ()
    is_choice: bool = True
    spaced: bool | None = None


def normalised(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration completed with the default values of launch options."""
    present = {name: value for name, value in values.items() if value is not None}
    return {**_DEFAULTS, **present}


def entry_finding(
    kind: str,
    entry: ConfigEntry,
    message: str,
    *,
    notes: Sequence[str] = (),
    help: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    """Return a finding about an entry."""
    return file_finding(
        *(kind, entry.file, f"{entry.name}: {message}"),
        line=entry.line,
        kernel=entry.kernel,
        config=entry.values,
        notes=notes,
        help=help,
        severity=severity,
    )


def file_finding(
    kind: str,
    path: Path,
    message: str,
    *,
    line: int = 1,
    kernel: str = "",
    config: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    help: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    """Return a finding about a file; its severity depends on the kind unless it is given."""
    return Finding(
        kind=kind,
        check=CHECK,
        severity=severity or _KINDS[kind][0],
        message=message,
        kernel=kernel,
        location=SourceLocation(str(path), line, 0),
        notes=tuple(notes),
        config=config,
        help=help,
        origin=message,
    )
