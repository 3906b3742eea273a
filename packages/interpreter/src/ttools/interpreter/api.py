"""`interpret()`: runs chosen Triton kernels on the CPU, whatever the machine has.

The public face of the engine. Owns what the arguments may be; the rest is delegated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, TypeVar

from ttools.core.errors import UsageError
from ttools.interpreter.picture.picture import Picture
from ttools.interpreter.run.interpretation import Run, enter, leave
from ttools.interpreter.run.observation import Observer
from ttools.interpreter.run.stats import KernelStats
from ttools.interpreter.run.tuned_launch import TunedLaunch
from ttools.interpreter.runtime import selection
from ttools.interpreter.runtime.launch import LaunchOptions
from ttools.interpreter.watching.comparison import Comparison
from ttools.interpreter.watching.recording import Recording
from ttools.interpreter.watching.watch import DEFAULT_LIMIT, Watching

__all__ = ["Interpretation", "KernelStats", "interpret"]

P = ParamSpec("P")
R = TypeVar("R")


class Interpretation:
    """A run of the engine, as a context manager and as a decorator; made by `interpret`.

    It may be entered again, also while it is active, and by several threads; what it counts adds
    up. Threads that enter no run of their own, such as autograd's, belong to the latest one
    entered.
    """

    def __init__(self, run: Run, watching: Watching | None = None) -> None:
        self._run = run
        self._watching = watching

    @property
    def stats(self) -> list[KernelStats]:
        """Launches, programs and times of each kernel, in the order they were first seen."""
        return self._run.statistics.kernels

    @property
    def warnings(self) -> list[str]:
        """What the user should know of launches that completed."""
        return self._run.warnings

    @property
    def watched(self) -> Recording:
        """The values of watched variables so far, as NumPy arrays.

        Raises:
            UsageError: nothing is watched.
        """
        if self._watching is None:
            raise UsageError("nothing is watched: interpret(watch=[...]) names what to watch")
        return self._watching.recording

    @property
    def comparison(self) -> Comparison:
        """What comparing the values so far with another run's finds.

        Raises:
            UsageError: nothing is compared, or the runs have nothing in common.
        """
        if self._watching is None:
            raise UsageError("nothing is compared: interpret(compare=...) says with what")
        return self._watching.comparison

    def picture(self, target: str = "") -> Picture:
        """A page of what programs held, loaded and stored so far; a notebook shows it.

        Args:
            target: what was run, for the title.

        Raises:
            UsageError: the run was made without `picture=True`.
        """
        if self._watching is None or self._watching.book is None:
            raise UsageError("nothing is drawn: interpret(picture=True) takes what is needed")
        return Picture(self._watching.recording, self._watching.book, target)

    @property
    def unmatched(self) -> list[str]:
        """A sentence for each entry of `watch` that no kernel that ran could answer."""
        return [] if self._watching is None else self._watching.recorder.complaints()

    def __enter__(self) -> Interpretation:
        from ttools.core.triton_versions import take_over_triton_interpret

        if take_over_triton_interpret():
            self._run.warn("TRITON_INTERPRET is set; ttools interprets instead")
        from ttools.interpreter.backend.interception import INTERCEPTION

        INTERCEPTION.__enter__()
        enter(self._run)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from ttools.interpreter.backend.interception import INTERCEPTION

        leave(self._run)
        INTERCEPTION.__exit__(kind, error, traceback)
        if self._watching is not None:
            for sentence in self._watching.finish():
                self._run.warn(sentence)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorates a function, during whose calls the run is active."""

        @functools.wraps(function)
        def interpreted(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return interpreted


def interpret(
    *,
    only: Sequence[str] | Callable[[str], bool] | None = None,
    threads: int | None = None,
    order: Literal["natural", "reverse", "random"] = "natural",
    seed: int = 0,
    programs: str | None = None,
    first_config: bool = False,
    schedule: Literal["fused", "materialised"] = "fused",
    observer: Observer | None = None,
    tune: Callable[[TunedLaunch], Any] | None = None,
    engine: Literal["native", "eager"] = "native",
    watch: Sequence[str] | None = None,
    trace: str | Path | None = None,
    trace_limit: int | None = None,
    compare: str | Path | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    picture: bool = False,
    dot: Literal["as-written", "exact"] | None = None,
) -> Interpretation:
    """Runs Triton kernels on the CPU while the returned context is active.

    Kernels that `only` leaves out run where they would have run without this. Tensors on a GPU
    are copied to the host for a launch, and what the launch wrote is copied back.

    Args:
        only: names of kernels, or a predicate on names; all kernels by default.
        threads: how many threads run the programs of a launch; as many as torch uses by default.
        order: in which order programs start.
        seed: of the random order and of `random:N` in `programs`.
        programs: which programs run, as in `0,5:8,last,random:64`; all by default.
        first_config: autotuners take their first configuration without timing any.
        schedule: `materialised` stores every intermediate tensor: slow, the engine's reference.
        observer: runs each launch with instruments of its choice, see `observation`.
        tune: runs autotuned launches that nobody times, see `tuned_launch`; by default in their
            first configuration.
        engine: `native` code, or `eager`: the kernel's own source as Python, for debuggers, in
            this thread; autotuners then take their first configuration.
        watch: variables (`acc`, `*_ptrs`) and lines (`kernel.py:31`) whose values are recorded, for
            the run's `watched`. All programs run then, and `programs` are those that are recorded;
            autotuners take their first configuration.
        trace: a file to record in, for `open_trace`; everything, unless `watch` says what.
        trace_limit: how many bytes of values are recorded at most, 256 MiB by default.
        compare: compares the values with those of `eager` programs, or of a trace: the run's
            `comparison`.
        rtol: relative tolerance of the comparison; by default that of `torch.testing`.
        atol: absolute tolerance, likewise.
        picture: takes what is needed for a page, the run's `picture()`: of up to three launches of
            each kernel the values in up to 16 programs, and all accesses.
        dot: `as-written` computes products of f32 tiles with the `input_precision` of `tl.dot`,
            which is tf32 unless the kernel says otherwise, as a GPU does; `exact` does not round
            their operands. `as-written` by default, or what the variable TTOOLS_DOT says.

    Returns:
        The run: a context manager and a decorator, with `stats`, `warnings` and `watched`.

    Raises:
        UsageError: an argument makes no sense; on entry, if Triton's own interpreter was
            switched on (TRITON_INTERPRET) when Triton was imported.

    Example:
        >>> with interpret(only=["softmax_kernel"]) as run:
        ...     softmax(x)
        >>> run.stats[0].programs
    """
    _check("order", order, ("natural", "reverse", "random"))
    _check("schedule", schedule, ("fused", "materialised"))
    _check("engine", engine, ("native", "eager"))
    if dot is not None:
        _check("dot", dot, ("as-written", "exact"))
    if engine == "eager" and observer is not None:
        raise UsageError("engine='eager': what the eager engine runs cannot be observed")
    if programs is not None:
        selection.parse(programs)
    watching = None
    if picture or not (watch is None and trace is None and compare is None):
        _check_watching(watch, engine, observer)
        watching = Watching(
            watch or (),
            trace=trace,
            programs=programs,
            seed=seed,
            limit=DEFAULT_LIMIT if trace_limit is None else trace_limit,
            against=compare,
            rtol=rtol,
            atol=atol,
            picture=picture,
            only_pictures=watch is None and trace is None and compare is None,
        )
        observer, programs = watching.recorder, None
    elif trace_limit is not None:
        raise UsageError(
            "trace_limit is for a trace: name a file with trace= (--trace), or watch something"
        )
    return Interpretation(
        Run(
            selects=_selector(only),
            launch_options=LaunchOptions(
                threads=threads, order=order, seed=seed, programs=programs
            ),
            schedule=schedule,
            first_config=first_config or engine == "eager" or watching is not None,
            observer=observer,
            tune=tune,
            engine=engine,
            dot=dot,
        ),
        watching,
    )


def _check_watching(watch: Sequence[str] | None, engine: str, observer: Observer | None) -> None:
    if isinstance(watch, str):
        raise UsageError(f"watch={watch!r}: must be a list of variables, as in watch=[{watch!r}]")
    if engine == "eager":
        raise UsageError("engine='eager': only native code is watched; eager kernels can print")
    if observer is not None:
        raise UsageError("watch= and observer= exclude each other")


def _check(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise UsageError(f"{name}={value!r}: must be one of {', '.join(choices)}")


def _selector(only: Sequence[str] | Callable[[str], bool] | None) -> Callable[[str], bool]:
    if only is None:
        return lambda name: True
    if callable(only):
        return only
    if isinstance(only, str):
        raise UsageError(f"only={only!r}: must be a list of kernel names, as in only=[{only!r}]")
    names = frozenset(only)
    return names.__contains__
