"""Describes which configurations of a tuning compute, or are predicted to compute, the same bits.

Ranks of a distributed program, or runs of a test, may use different configurations. Their results
are equal only if the outputs of these configurations have equal bits. Configurations with different
block sizes usually add in different orders.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ttools.core.json_document import parse_json
from ttools.core.reports.report import config_text, counted
from ttools.core.separation import separating_condition
from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.failing import constants_of
from ttools.tuner.store.ranking import estimate
from ttools.tuner.store.store import TuningEntry

#: Maximum number of configurations that are listed individually if no condition describes them.
_MOST_LISTED = 3


def bit_equality(entry: TuningEntry) -> str:
    """Return a sentence on the bit equality of configurations that can win; empty if unknown."""
    compared = [t for t in entry.trials if t.status == "ok" and t.bit_equal is not None]
    # Trials of different runs may have been compared with different reference configurations.
    for reference, _ in Counter(trial.reference for trial in compared).most_common(1):
        compared = [trial for trial in compared if trial.reference == reference]
    if len(compared) < 2:
        return ""
    differing = [trial.values for trial in compared if not trial.bit_equal]
    equal = [trial.values for trial in compared if trial.bit_equal]
    scope = "" if _ran_on_gpu(entry) else "; on the CPU, num_warps has no effect"
    if not differing:
        return f"the outputs of {counted(len(equal), 'configuration')} are bit-equal{scope}"
    condition = separating_condition(differing, equal, constants_of(entry))
    if condition is not None:
        which = f"exactly where {condition.text}"
    else:
        changing = [n for n in differing[0] if len({str(v.get(n)) for v in differing + equal}) > 1]
        texts = dict.fromkeys(
            config_text({name: values.get(name) for name in changing}) for values in differing
        )
        shown = list(texts)[:_MOST_LISTED]
        more = len(texts) - len(shown)
        which = "; ".join(shown) + (f" and {more} more" if more else "")
    return (
        f"{len(differing)} of {counted(len(compared), 'configuration')} are not bit-equal to the "
        f"first one ({which}), because another order of operations rounds differently{scope}"
    )


@dataclass(frozen=True, kw_only=True)
class TimedClass:
    """A class of configurations with equal bits.

    Attributes:
        first: Values of the first configuration of the class.
        configurations: Number of configurations in the class.
        best: Values of the fastest configuration that can win; None if none was timed.
        seconds: Time of the fastest configuration.
    """

    first: Mapping[str, Any]
    configurations: int
    best: Mapping[str, Any] | None
    seconds: float | None


def timed_classes(entry: TuningEntry) -> list[TimedClass]:
    """Return the classes of equal bits with their best times, the fastest first."""
    if entry.bit_classes is None:
        return []
    same_as = entry.bit_classes.same_as
    sizes = Counter(same_as.values())
    best: dict[str, tuple[float, Trial]] = {}
    for trial in entry.trials:
        seconds, first = estimate(entry, trial), same_as.get(trial.key)
        if seconds is None or first is None:
            continue
        if first not in best or seconds < best[first][0]:
            best[first] = seconds, trial
    classes = [
        TimedClass(
            first=parse_json(first),
            configurations=count,
            best=best[first][1].values if first in best else None,
            seconds=best[first][0] if first in best else None,
        )
        for first, count in sizes.items()
    ]
    return sorted(classes, key=lambda one: math.inf if one.seconds is None else one.seconds)


def bit_class_summary(entry: TuningEntry) -> str:
    """Return how many configurations are bit-equal to the fastest, and how much slower others are.

    The text is empty if no classes are known.
    """
    predicted, timed = entry.bit_classes, timed_classes(entry)
    if predicted is None or not timed:
        return ""
    total = sum(one.configurations for one in timed)
    fastest, others = timed[0], [one for one in timed[1:] if one.seconds is not None]
    equal = f"{fastest.configurations} of {counted(total, 'configuration')} on {predicted.target}"
    if fastest.seconds is None:
        return f"{counted(len(timed), 'class', 'classes')} of equal bits on {predicted.target}"
    sentences = [f"bit-equal to the fastest: {equal}"]
    if not others and len(timed) > 1:
        sentences.append("no other configuration was timed")
    for one in others[:_MOST_LISTED]:
        ratio = one.seconds / fastest.seconds - 1 if one.seconds else 0.0
        count = counted(one.configurations, "configuration")
        sentences.append(
            f"the best of {count} bit-equal to {config_text(dict(one.first))} takes {ratio:.1%} "
            "longer"
        )
    if len(others) > _MOST_LISTED:
        sentences.append(f"{counted(len(others) - _MOST_LISTED, 'more class', 'more classes')}")
    if predicted.unknown:
        sentences.append(f"{counted(len(predicted.unknown), 'configuration')} cannot be compared")
    return "; ".join(sentences)


def _ran_on_gpu(entry: TuningEntry) -> bool:
    """Return whether the configurations ran on a GPU; those with projected times ran on the CPU."""
    return entry.problem.device.startswith(("cuda:", "hip:"))
