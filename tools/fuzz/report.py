"""The summary of a campaign, as a Markdown table for the documentation."""

from __future__ import annotations

import platform
import time
from collections import Counter
from dataclasses import dataclass, field

from ttools.fuzz.trial import Failure, Verdict


@dataclass
class Campaign:
    """Counts of a campaign.

    Attributes:
        command: Command that started the campaign.
        cpu: Target CPU of variants that set none.
        kernels: Number of kernels that ran.
        rejected: Number of kernels that Triton rejected.
        seconds: CPU time in seconds.
        launches: Number of launches by variant.
        failures: All failures except rejections.
        first: Smallest seed.
        last: Largest seed.
    """

    command: str
    cpu: str = ""
    kernels: int = 0
    rejected: int = 0
    seconds: float = 0.0
    launches: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    first: int | None = None
    last: int | None = None
    started: float = field(default_factory=time.monotonic)

    def add(self, verdict: Verdict) -> None:
        """Add the result of a kernel."""
        seed = verdict.seed
        self.first = seed if self.first is None else min(self.first, seed)
        self.last = seed if self.last is None else max(self.last, seed)
        self.kernels += 1
        self.seconds += verdict.seconds
        self.launches.update(verdict.variants)
        kinds = [failure.kind for failure in verdict.failures]
        self.rejected += "rejected" in kinds
        self.failures += [f for f in verdict.failures if f.kind != "rejected"]

    @property
    def failed(self) -> bool:
        """True if a kernel failed; differences of only the GPU or only NumPy do not count."""
        return any(f.kind not in ("gpu only", "oracle only") for f in self.failures)

    def causes(self, most: int) -> list[Failure]:
        """Return one failure per cause; for differences from a GPU, one failure per kernel."""
        by_cause: dict[str, Failure] = {}
        for failure in self.failures:
            several = failure.kind in ("gpu only", "oracle only", "all differ", "engine only")
            key = f"{failure.kind} {failure.seed}" if several else failure.cause
            by_cause.setdefault(key, failure)
        return list(by_cause.values())[:most]


def as_json(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as a line of a campaign's results."""
    return {
        "seed": verdict.seed,
        "variants": list(verdict.variants),
        "seconds": round(verdict.seconds, 4),
        "failures": [
            {"kind": f.kind, "variant": f.variant, "message": f.message} for f in verdict.failures
        ],
    }


def markdown(campaign: Campaign) -> str:
    """Return the campaign as Markdown."""
    kinds = Counter(failure.kind for failure in campaign.failures)
    seeds = sorted({failure.seed for failure in campaign.failures})
    rows = {
        "command": f"`{campaign.command}`",
        "target": campaign.cpu or f"native ({platform.machine()})",
        "kernels": f"{campaign.kernels:,}, of which Triton refused {campaign.rejected:,}",
        "launches": f"{sum(campaign.launches.values()):,}",
        "seeds": f"{campaign.first} to {campaign.last}",
        "CPU time": f"{campaign.seconds:,.0f} s, {_rate(campaign):.1f} kernels a second",
        "elapsed": f"{time.monotonic() - campaign.started:,.0f} s",
        "failures": ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "none",
        "failing seeds": ", ".join(map(str, seeds[:40])) or "none",
    }
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]
    lines += ["", "| variant | launches | failures |", "|---|---:|---:|"]
    failed = Counter(failure.variant for failure in campaign.failures)
    names = sorted({*campaign.launches, *failed})
    lines += [f"| {name} | {campaign.launches[name]:,} | {failed[name]} |" for name in names]
    return "\n".join(lines) + "\n"


def _rate(campaign: Campaign) -> float:
    return campaign.kernels / campaign.seconds if campaign.seconds else 0.0
