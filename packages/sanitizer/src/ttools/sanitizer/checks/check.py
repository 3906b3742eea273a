"""A check: the kinds of its findings, what it needs to see of a launch, and what it makes of that.

To add one, derive from `Check` in a file of this folder and name the class in `registry`. The
hooks are called in the order in which they stand here; each does nothing unless it is overridden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding, Severity
from ttools.core.location import user_location
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Count
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.witness_text import lane_indices, variables
from ttools.sanitizer.passes.rewrites import Pass


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of finding.

    Attributes:
        severity: of a finding, unless it says otherwise.
        meaning: a sentence for legends, SARIF rules and the documentation.
        help: what to do about it, unless a finding knows better.
    """

    severity: Severity
    meaning: str
    help: str | None = None

    def row(self, name: str, check: str) -> str:
        """Its row of the documentation's table."""
        return f"| `{name}` | {check} | {self.severity} | {self.meaning} |\n"


Kinds: TypeAlias = "Mapping[str, Kind]"

#: Kinds that belong to every check.
SHARED_KINDS: Kinds = {
    "config_failed": Kind(
        severity="warning",
        meaning="A configuration of an autotuned kernel does not compile, or raises; a note where "
        "Triton's tuner passes over it, too.",
    ),
    "not_restored": Kind(
        severity="warning",
        meaning="Each launch of an autotuned kernel changes a tensor that it reads, and the tuner, "
        "which makes many to time its configurations, does not put it back.",
        help="name the argument in `restore_value` of triton.autotune, or in `reset_to_zero` if it "
        "begins with zeros",
    ),
    "interrupted": Kind(
        severity="note",
        meaning="A launch or its checks were stopped by Ctrl-C, or because the process was asked "
        "to end.",
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
        "`--timeout` and was stopped, so that the launch was not checked to its end.",
        help="raise --timeout to have it checked to the end",
    ),
    "unsupported": Kind(severity="warning", meaning="A check could not analyse this."),
}

#: `accesses`: those to memory that the launch writes are logged, by program and lane;
#: `allocations`: memory handed out uninitialised is watched while the run is active;
#: `views`: accesses inside a storage, but outside the view passed, fail.
Observation = Literal["accesses", "allocations", "views"]


class Check:
    """One check of one launch.

    Attributes:
        name: as the user calls it.
        aliases: what users of other tools call it.
        is_default: whether it is made unless others are asked for.
        observes: what it needs to see, besides what fails in native code.
        rewrites_first: whether its passes come before those of all others.
        analysis: what the phase of its findings is called in messages; by default after its name.
        seeks: what it looks for, in the plural, for messages that say it was not looked for.
    """

    name: ClassVar[str]
    kinds: ClassVar[Kinds]
    aliases: ClassVar[tuple[str, ...]] = ()
    is_default: ClassVar[bool] = True
    observes: ClassVar[frozenset[Observation]] = frozenset()
    rewrites_first: ClassVar[bool] = False
    analysis: ClassVar[str] = ""
    seeks: ClassVar[str] = ""

    def __init__(self, checked: CheckedLaunch) -> None:
        self.checked = checked

    # ---- before the launch runs
    def passes(self) -> Sequence[Pass]:
        """The passes that rewrite the kernel; equal launches must get the same objects.

        Passes cost compile time and run time, so there are none unless what is known of the launch
        leaves something to find.
        """
        return ()

    def hidden(self) -> Sequence[int]:
        """The values of the parameters that the passes append; asked for if there are passes."""
        return ()

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Looks at the memory that the launch will find; returns how its programs are to run."""
        return options

    # ---- after it has run
    def recover(self, error: KernelError) -> Finding | None:
        """The finding that an error which ended the launch amounts to; None if it is none."""

    def failures(self, counts: Sequence[Count]) -> Iterable[Finding]:
        """Findings from what failed in native code, also of launches that were interrupted.

        Args:
            counts: one per operation and test, in the order of the kernel's operations.
        """
        return (self.at_site(count) for count in counts if self.is_own(count))

    def findings(self) -> Iterable[Finding]:
        """Findings from all that was observed."""
        return ()

    def remarks(self) -> Iterable[Finding]:
        """Findings that are to stand behind all others of the launch."""
        return ()

    # ---- how findings are made
    def finding(self, kind: str, message: str, **fields: Any) -> Finding:
        """A finding in the launch, as severe as its kind unless `fields` of `Finding` differ."""
        known, spec = self.kinds.get(kind) or SHARED_KINDS[kind], self.checked.spec
        fields = {"severity": known.severity, "help": known.help, **fields}
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
        """A finding of lanes that failed a test, with the first of them as witness."""
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
        """Whether what failed is a `ttools.check` that this check's passes inserted."""
        site = count.witness.site
        return site.kind == "check" and dict(site.attributes)["check"] == self.name

    def at_site(self, count: Count) -> Finding:
        """The finding of a `ttools.check` that failed, as its attributes describe it."""
        site = count.witness.site
        defect = dict(site.attributes)
        argument = self.checked.spec.argument(int(defect.get("argument", -1)))
        fields = {name: defect[name] for name in ("help", "severity") if defect.get(name)}
        return self.at_lanes(
            count,
            defect["kind"],
            defect["message"] + (f" (`{argument.name}`)" if argument else ""),
            argument=argument,
            location=user_location(site.location) or site.location,
            **fields,
        )
