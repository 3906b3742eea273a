"""Runs the candidate on a GPU and compares the outcome with the outcome on the engine.

If a case fails on both, the kernel has a defect. If a case fails only on the GPU, and the engine
finds neither races nor uninitialised memory, then the compiler or the hardware is suspected. The
launch is then repeated with different numbers of warps and stages, its values are stored to find
the first value that differs, and a text for an issue is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ttools.verifier.cases.plan import Case
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.report.issue import issue_text
from ttools.verifier.run.finding_classes import of_doubtful
from ttools.verifier.run.first_difference import Found, first_difference
from ttools.verifier.run.processes import Processes
from ttools.verifier.run.trial import Trial, Trials

#: Other ways to compile a launch.
VARIANTS: tuple[dict[str, int], ...] = (
    {"num_warps": 1},
    {"num_warps": 2},
    {"num_warps": 8},
    {"num_stages": 1},
    {"num_stages": 4},
)
#: Number of repeats without changes, to find whether the launch is always wrong.
_REPEATS = 3
#: Program orders of the engine's runs with small changes, which measure the permitted difference.
_ORDERS = ("reverse", "random", "random")
#: If the result is correct when all values are stored, the values are divided into these numbers of
#: parts, and each part is stored alone.
_PARTS = (2, 4)
_HINT = (
    "the result is correct, which suggests a fault in the compiler's scheduling or register "
    "allocation"
)


class Gpu:
    """The candidate on the GPU.

    Args:
        trials: Runs and compares cases.
        engine: Runs a case on the engine in a new process, with further options.

    Attributes:
        name: Name of the GPU.
        is_inexact: If True, the precision of products that the kernel requests (such as tf32) is
            lower than the tolerance.
    """

    def __init__(self, processes: Processes, trials: Trials, engine: Callable[..., Trial]) -> None:
        self._processes, self._trials, self._engine = processes, trials, engine
        self._worker, loaded = processes.on_gpu()
        self.name: str = loaded["gpu"]
        self._versions: dict[str, str] = loaded["versions"]
        self.is_inexact = False

    def run(self, case: Case, **request: Any) -> Trial:
        """Run a case on the GPU.

        The process is replaced after a failure that may affect later cases, such as an exception.
        """
        trial = self._trials.run(case, self._worker, **request)
        if trial.unsupported or not trial.classes <= {"wrong_values", "unwritten", "layout"}:
            self._renew()
        return trial

    def _renew(self) -> None:
        with contextlib.suppress(ValueError):
            self._processes.end(self._worker)
        self._worker = self._processes.on_gpu()[0]

    def confirmed(self, case: Case) -> str:
        """Describe whether a case that fails on the engine also fails on the GPU."""
        trial = self.run(case)
        if trial.problems:
            return f"also on {self.name}: {trial.problems[0].detail}"
        return f"correct on {self.name}, but only by coincidence"

    def explained(self, case: Case, trial: Trial) -> list[Mismatch]:
        """Find the cause of a failure on the GPU.

        Args:
            case: Case that fails on the GPU.
            trial: Outcome of the case on the GPU.

        Returns:
            The failures; none if the only cause is the low precision of products.
        """
        wrong = trial.problems[0]
        is_value = trial.classes <= {"wrong_values"}
        if is_value and self.is_inexact:
            return []
        engine = self._engine(case)
        if engine.unsupported:
            detail = f"on {self.name}: {wrong.detail} (not checked on the engine: "
            return [Mismatch(wrong.failure, f"{detail}{engine.unsupported})")]
        if engine.problems:
            return engine.problems
        doubtful = of_doubtful(engine.findings)
        if doubtful:
            return doubtful
        if is_value and self._engine(case, dot="as-written").problems:
            self.is_inexact = True
            return []
        repeats = [self.run(case) for _ in range(_REPEATS)]
        wrong_again = sum(bool(repeat.problems) for repeat in repeats)
        variants = {
            ", ".join(f"{key}={value}" for key, value in variant.items()): self._outcome(
                case, variant
            )
            for variant in VARIANTS
        }
        located = self._located(case)
        right = [name for name, outcome in variants.items() if outcome == "correct"]
        detail = (
            f"on {self.name}, {wrong_again + 1} of {_REPEATS + 1} times: {wrong.detail}; correct "
            "on the engine, where racecheck and initcheck find nothing; on the GPU "
            + (
                f"correct with {' or '.join(right)}"
                if right
                else "also wrong with other numbers of warps and stages"
            )
            + f"; {located}"
        )
        issue = issue_text(
            problem=wrong.detail,
            gpu=self.name,
            versions=self._versions,
            kernels=trial.kernels,
            times=(wrong_again + 1, _REPEATS + 1),
            variants=variants,
            located=located,
        )
        return [Mismatch(wrong.failure, detail, {"issue": issue})]

    def _outcome(self, case: Case, variant: dict[str, int]) -> str:
        trial = self.run(case, **variant)
        if not trial.problems:
            return "correct"
        return trial.problems[0].detail

    # ---- instrumented stores
    def _located(self, case: Case) -> str:
        """Store the values that the kernels compute, and describe the first difference.

        Returns:
            A clause without a full stop.
        """
        whole = self.run(case, log={})
        if whole.unsupported or not whole.log:
            why = whole.unsupported or _first_detail(whole)
            return f"no intermediate values could be stored: {why}"
        if "exception" in whole.classes:
            return (
                "if every intermediate value is also stored, the kernel fails differently: "
                f"{_first_detail(whole)}"
            )
        exact = self._engine(case, log={}, dot="as-written")
        perturbed = [
            self._engine(case, log={"seed": n}, dot="as-written", order=order, seed=n)
            for n, order in enumerate(_ORDERS)
        ]

        def compared(trial: Trial) -> Found:
            return first_difference(trial.log, exact.log, [run.log for run in perturbed])

        if whole.problems:
            return _sentence(compared(whole))
        text = (
            "if all intermediate values, or only a half or a quarter of them, are also stored, "
            f"{_HINT}"
        )
        for of in _PARTS:
            for part in range(of):
                trial = self.run(case, log={"part": (part, of)})
                if trial.problems and "exception" not in trial.classes:
                    comparison = compared(trial)
                    text = (
                        f"if all intermediate values are also stored, {_HINT}; with only part "
                        f"{part + 1} of {of} of them: {_sentence(comparison)}"
                    )
                    if comparison.difference:
                        return text
        return text


def _sentence(found: Found) -> str:
    limits = f" ({found.limits})" if found.limits else ""
    if found.difference:
        return f"the first value that differs is in {found.difference}{limits}"
    return (
        "the result is wrong, although all values that were stored and compared equal those of the "
        "engine; the fault is in storing the results, or in a computation between these values"
        f"{limits}"
    )


def _first_detail(trial: Trial) -> str:
    return trial.problems[0].detail if trial.problems else "no kernel was compiled to store them"
