"""Describes which configurations of a tuning compute the same bits.

Ranks of a distributed program, or runs of a test, may use different configurations. Their results
are equal only if the outputs of these configurations have equal bits. A configuration with other
block sizes usually adds in another order.
"""

from __future__ import annotations

from collections import Counter

from ttools.core.reports.report import config_text, counted
from ttools.core.separation import separating_condition
from ttools.tuner.store.failing import constants_of
from ttools.tuner.store.store import TuningEntry

#: Maximum number of configurations that are listed if no condition describes them.
_MOST_LISTED = 3


def bit_equality(entry: TuningEntry) -> str:
    """Return a sentence about the configurations that can win; empty if it is unknown."""
    compared = [t for t in entry.trials if t.status == "ok" and t.bit_equal is not None]
    # Trials of several runs may have been compared with different configurations.
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


def _ran_on_gpu(entry: TuningEntry) -> bool:
    """Return whether the configurations ran on a GPU; projected ones ran on the CPU."""
    return entry.problem.device.startswith(("cuda:", "hip:"))
