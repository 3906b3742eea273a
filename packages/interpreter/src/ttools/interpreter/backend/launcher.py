"""Launches one compiled kernel: what Triton calls in place of a GPU's launcher.

Owns the path from a launch's arguments to the engine and back; each step is another file's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from ttools.core.device_map.proton import note_launch
from ttools.core.errors import TtoolsError, UsageError, during
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.abi.facts import FactFinder
from ttools.interpreter.abi.module import EmitOptions
from ttools.interpreter.backend.device import LoadedKernel
from ttools.interpreter.backend.tuned_config import autotuner_config
from ttools.interpreter.run.device_copies import HostCopies, has_device_memory
from ttools.interpreter.run.emit_options import emit_options
from ttools.interpreter.run.interpretation import Run, active_run
from ttools.interpreter.run.notices import announce_implicit_launch
from ttools.interpreter.run.observation import ObservedLaunch
from ttools.interpreter.run.variants import Variants
from ttools.interpreter.runtime import launch

_DEFAULT = launch.LaunchOptions()


class CPULauncher:
    """The launcher of one compiled kernel.

    Args:
        src: what Triton compiled: it has the signature, and the function if made from Python.
        metadata: the kernel's metadata.
    """

    def __init__(self, src: Any, metadata: Any) -> None:
        # The symbol differs from the function's name where @triton.jit was given `repr=`.
        function = getattr(src, "fn", None)
        self._function = function
        self._name = str(metadata.name if function is None else function.__name__)
        self._plan = ArgumentPlan([str(n) for n in src.signature], list(src.signature.values()))
        self._fp_fusion = bool(metadata.enable_fp_fusion)
        self._debug = bool(metadata.debug)
        self._source = src
        self._metadata = metadata
        self._options: dict[tuple[str, str] | None, EmitOptions] = {}
        self._facts: FactFinder | None = None

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: object,
        function: LoadedKernel,
        packed_metadata: object,
        launch_metadata: Any,
        launch_enter_hook: Any,
        launch_exit_hook: Any,
        *arguments: Any,
    ) -> None:
        """Runs all programs and returns when they are done.

        Raises:
            TtoolsError: see `ttools.core.errors`; the launch hooks get no exit then, as on a GPU.
        """
        if launch_enter_hook is not None:
            launch_enter_hook(launch_metadata)
        run = active_run()
        if run is None:
            announce_implicit_launch()
        elif not run.selects(self._name):
            run = None
        self._launch(function, self._grid(grid_x, grid_y, grid_z), arguments, run)
        if launch_exit_hook is not None:
            launch_exit_hook(launch_metadata)

    def _grid(self, *extents: Any) -> tuple[int, ...]:
        try:
            return tuple(map(index, extents))
        except TypeError:
            raise UsageError(
                f"kernel `{self._name}`: the grid must be integers, not {extents}"
            ) from None

    def _launch(
        self, function: LoadedKernel, grid: Sequence[int], arguments: Sequence[Any], run: Run | None
    ) -> None:
        variants = function.variants
        if variants is None or self._facts is None:
            variants = self._load(function)
        values = self._plan.flatten(arguments)
        copies = None
        if has_device_memory():
            copies = HostCopies(self._plan, variants.addresses)
            values = copies.replace(values)
            copies.keep(variants.effects)
        assert self._facts is not None  # set by _load
        facts, options = self._facts.facts(values), self._emit_options(run)
        try:
            if run is not None and run.observer is not None:
                report = run.observer.launch(
                    ObservedLaunch(
                        kernel=self._name,
                        function=self._function,
                        grid=grid,
                        plan=self._plan,
                        arguments=values if copies is None else self._plan.flatten(arguments),
                        values=values,
                        variants=variants,
                        facts=facts,
                        options=options,
                        run=run,
                        config=autotuner_config(),
                        eagerly=self._eager_twin(grid, arguments, values),
                        source=self._source,
                    )
                )
            else:
                kernel = variants.kernel(facts, options, run.statistics if run else None)
                params = self._plan.pack(values)
                report = launch.run(kernel, params, grid, run.launch_options if run else _DEFAULT)
        except TtoolsError as error:
            error.add_during(f"running kernel `{self._name}` with grid {tuple(grid)}")
            raise
        finally:
            if copies is not None:
                copies.write_back(variants.effects)
        note_launch(report.seconds)
        if run is not None:
            run.statistics.count_launch(self._name, report.programs, report.seconds)
            for warning in report.warnings:
                run.warn(str(warning))

    def _eager_twin(
        self, grid: Sequence[int], arguments: Sequence[Any], values: Sequence[Any]
    ) -> Callable[[str], None] | None:
        if self._function is None:
            return None

        def run(programs: str) -> None:
            from ttools.interpreter.eager.launch import eager_twin

            twin = eager_twin(self._function, self._source.signature, self._metadata)
            twin.run_programs(grid, arguments, values, programs)

        return run

    def _load(self, function: LoadedKernel) -> Variants:
        variants = Variants(self._name, function.ttir)
        with during(f"loading kernel `{self._name}`"):
            self._plan.check(variants.parameters)
        self._facts = FactFinder(variants.effects, self._plan.pointers)
        function.variants = variants
        return variants

    def _emit_options(self, run: Run | None) -> EmitOptions:
        key = run.emits if run else None
        options = self._options.get(key)
        if options is None:
            options = emit_options(run=run, fp_fusion=self._fp_fusion, debug=self._debug)
            self._options[key] = options
        return options
