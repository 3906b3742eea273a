"""The base class of all checks: kinds of findings, and the hooks around a launch.

To add a check, derive from `Check` in a file of this folder and list the class in `registry`. The
hooks are called in the order in which they are defined here; each does nothing unless it is
overridden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding, Severity
from ttools.core.location import user_location
from ttools.core.spec import LaunchSpec
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Count
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.passes.rewrites import Pass


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of finding.

    Attributes:
        severity: The default severity of findings of this kind.
        meaning: One sentence for legends, SARIF rules and the documentation.
        help: The default advice on how to correct the defect.
    """

    severity: Severity
    meaning: str
    help: str | None = None

    def row(self, name: str, check: str) -> str:
        """Return the row for the documentation's table of kinds."""
        return f"| `{name}` | {check} | {self.severity} | {self.meaning} |\n"


Kinds: TypeAlias = "Mapping[str, Kind]"

#: Kinds that belong to every check.
SHARED_KINDS: Kinds = {
    "config_failed": Kind(
        severity="warning",
        meaning="A configuration of an autotuned kernel does not compile or raises an "
        "exception; a note if Triton's autotuner skips it, too.",
    ),
    "not_restored": Kind(
        severity="warning",
        meaning="An autotuned kernel changes a tensor that it reads, and the autotuner, "
        "which launches it many times, does not restore the tensor.",
        help="name the argument in `restore_value` of triton.autotune",
    ),
    "interrupted": Kind(
        severity="note",
        meaning="A launch or its checks were stopped by Ctrl-C, or by a signal that "
        "terminates the process.",
    ),
    "timeout": Kind(
        severity="error",
        meaning="A launch took longer than `--timeout` and was stopped; what it left in memory is "
        "incomplete.",
        help="correct the loop if it never ends; raise --timeout if the launch is long",
    ),
    "not_checked": Kind(
        severity="error",
        meaning="The compilation of a kernel or an analysis of a launch took longer than "
        "`--timeout` and was stopped, so the launch was not checked completely.",
        help="raise --timeout, so that the launch is checked completely",
    ),
    "unsupported": Kind(
        severity="warning", meaning="A check could not analyse an operation or a launch."
    ),
}

#: `accesses` logs the accesses to memory that the launch writes, by program and lane; `allocations`
#: tracks uninitialised allocations while the run is active; `views` reports accesses that are
#: inside the storage but outside the view that the kernel received.
Observation = Literal["accesses", "allocations", "views"]


class Check:
    """One check of one launch.

    Attributes:
        name: The name that users pass to `--check`.
        aliases: Names of the same check in other tools.
        is_default: If True, the check runs unless the user chooses others.
        is_slow: If True, `all` leaves the check out, so that it runs only if its name is given.
        observes: Observations that the check needs in addition to the tests that native code makes.
        rewrites_first: If True, the passes of this check run before those of all others.
        analysis: The name of this check's analysis phase in messages; by default derived from
            `name`.
        page: The documentation of its findings: a path relative to the documentation's folder, with
            an anchor.
        seeks: Plural noun for the defects that the check detects. It is used in messages that these
            defects were not checked for.
        data_hooks: Names of the overridden hooks whose results may depend on more than the kernel,
            the grid, the numbers passed, and the addresses and layouts of the tensors, for example
            on the contents of memory or on observations of the launch. If an earlier launch was
            equal in all these respects and had no findings, only these hooks are called.
    """

    name: ClassVar[str]
    kinds: ClassVar[Kinds]
    aliases: ClassVar[tuple[str, ...]] = ()
    is_default: ClassVar[bool] = True
    is_slow: ClassVar[bool] = False
    observes: ClassVar[frozenset[Observation]] = frozenset()
    rewrites_first: ClassVar[bool] = False
    analysis: ClassVar[str] = ""
    seeks: ClassVar[str] = ""
    data_hooks: ClassVar[frozenset[str]] = frozenset({"passes", "prepare", "findings", "remarks"})
    page: ClassVar[str] = "reference/findings.md#kinds"

    def __init__(self, checked: CheckedLaunch) -> None:
        self.checked = checked

    # ---- before the launch runs
    def passes(self) -> Sequence[Pass]:
        """Return the passes that rewrite the kernel; return the same objects for equal launches.

        Passes increase compile time and run time, so return none if the arguments of the launch
        already rule out the defect.
        """
        return ()

    def hidden(self) -> Sequence[int]:
        """Return the values of the parameters that the passes append.

        This is called only if there are passes.
        """
        return ()

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Inspect memory before the launch; return the options with which its programs run."""
        return options

    # ---- after it has run
    def recover(self, error: KernelError) -> Finding | None:
        """Return the finding for an error that ended the launch; None if the error is no defect."""

    def failures(self, counts: Sequence[Count]) -> Iterable[Finding]:
        """Yield findings for tests that failed in native code, even if the launch was interrupted.

        Args:
            counts: One entry per operation and test, in the order of the kernel's operations.
        """
        return (self.at_site(count) for count in counts if self.is_own(count))

    def findings(self) -> Iterable[Finding]:
        """Yield the findings that follow from all observations of the launch."""
        return ()

    def remarks(self) -> Iterable[Finding]:
        """Yield the findings that are reported after all other findings of the launch."""
        return ()

    # ---- how findings are made
    def finding(self, kind: str, message: str, **fields: Any) -> Finding:
        """Return a finding for this launch; `fields` override the defaults of the kind."""
        defaults, spec = self.kinds.get(kind) or SHARED_KINDS[kind], self.checked.spec
        fields = {"severity": defaults.severity, "help": defaults.help, **fields}
        return Finding(
            kind=kind,
            check=self.name,
            message=message,
            kernel=spec.kernel,
            launch=spec.site.line,
            config=spec.site.config,
            **fields,
        )

    def at_lanes(self, count: Count, kind: str, message: str, **fields: Any) -> Finding:
        """Return a finding for lanes that failed a test, with the first of them as the witness."""
        witness, spec = count.witness, self.checked.spec
        fields = {
            "location": witness.site.location,
            "variables": variables(spec, witness.values),
            **fields,
        }
        return self.finding(
            kind,
            message,
            program=spec.coordinates(witness.program),
            lane=lane_indices(witness.lane, witness.site.shape),
            shape=witness.site.shape,
            iteration=witness.iterations,
            count=count.lanes,
            programs=count.programs,
            **fields,
        )

    def is_own(self, count: Count) -> bool:
        """Return whether the failed test is a `ttools.check` that this check's passes inserted."""
        site = count.witness.site
        return site.kind == "check" and dict(site.attributes)["check"] == self.name

    def at_site(self, count: Count) -> Finding:
        """Return the finding for a failed `ttools.check`, as described by its attributes."""
        site = count.witness.site
        defect = dict(site.attributes)
        argument = self.checked.spec.argument(int(defect.get("argument", -1)))
        fields = {name: defect[name] for name in ("help", "severity", "origin") if defect.get(name)}
        return self.at_lanes(
            count,
            defect["kind"],
            defect["message"] + (f" (`{argument.name}`)" if argument else ""),
            argument=argument,
            location=user_location(site.location) or site.location,
            **fields,
        )


def variables(spec: LaunchSpec, values: Sequence[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return names and values as text; `%3` becomes the name of parameter 3."""
    names = spec.names
    # Several components of a descriptor may come from the same parameter.
    return tuple(dict.fromkeys((_variable(name, names), _text(value)) for name, value in values))


def _variable(name: str, names: Sequence[str]) -> str:
    if name.startswith("%") and name[1:].isdigit() and int(name[1:]) < len(names):
        return names[int(name[1:])]
    return name


def lane_indices(lane: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a lane, counted row by row, as one index per axis; `()` for a scalar."""
    indices: list[int] = []
    for extent in reversed(shape):
        lane, index = divmod(lane, extent)
        indices.insert(0, index)
    return tuple(indices)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
