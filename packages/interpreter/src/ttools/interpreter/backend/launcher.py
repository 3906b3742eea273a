"""Launcher of a compiled kernel, which Triton calls in place of a GPU's launcher.

It passes the arguments of a launch to the engine. Tensors on a GPU are copied to the host first,
and those that the kernel may have written are copied back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ttools.core.device_map.graphs.capture import Capture, capturing
from ttools.core.device_map.memory import is_mapped
from ttools.core.device_map.proton import note_launch
from ttools.core.errors import (
    KernelError,
    TtoolsError,
    UnsupportedError,
    during,
)
from ttools.core.process.host_line import host_line
from ttools.core.spec import CallSite, CompileOptions
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.backend.device import LoadedKernel
from ttools.interpreter.backend.tuned_config import autotuner_config, choices
from ttools.interpreter.run.device_copies import HostCopies, has_device_memory
from ttools.interpreter.run.graph_launches import record_launch
from ttools.interpreter.run.interpretation import Run, receive_launch
from ttools.interpreter.run.kernel_launch import EagerTwin, ExecutableKernel, KernelLaunch
from ttools.interpreter.run.launch_rules import violations_of_devices
from ttools.interpreter.run.launching import make_launch
from ttools.interpreter.run.variants import Variants
from ttools.interpreter.runtime.launch_options import Grouping


class CPULauncher:
    """The launcher of one compiled kernel; each call creates a `KernelLaunch` and runs it.

    Args:
        src: The source that Triton compiled, with the signature and, for a jit function, the
            function.
        metadata: Metadata of the compiled kernel.
    """

    def __init__(self, src: Any, metadata: Any) -> None:
        # The symbol differs from the function's name if @triton.jit has the argument `repr=`.
        function = getattr(src, "fn", None)
        self._function = function
        self._name = str(metadata.name if function is None else function.__name__)
        self._plan = ArgumentPlan([str(n) for n in src.signature], list(src.signature.values()))
        self._pointers = sorted(self._plan.pointers)
        self._source = src
        self._metadata = metadata
        self._kernel: ExecutableKernel | None = None

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
        """Run all programs and return when they are done.

        Raises:
            TtoolsError: The launch is not possible, or fails. The exit hook is then not called, as
                on a GPU.
        """
        __tracebackhide__ = True
        if launch_enter_hook is not None:
            launch_enter_hook(launch_metadata)
        grid, run = receive_launch(self._name, (grid_x, grid_y, grid_z))
        capture = capturing()
        if capture is None:
            self._launch(function, grid, arguments, run)
        else:
            self._record(capture, function, grid, arguments, run)
        if launch_exit_hook is not None:
            launch_exit_hook(launch_metadata)

    def _record(
        self,
        capture: Capture,
        function: LoadedKernel,
        grid: Sequence[int],
        arguments: Sequence[Any],
        run: Run | None,
    ) -> None:
        """Record the launch in a graph; each replay of the graph repeats the launch."""
        site = CallSite(line=host_line(), config=autotuner_config(), choices=choices())

        def launch(kept: Sequence[Any], active: Run | None) -> None:
            self._launch(function, grid, kept, active, site)

        record_launch(capture, self._name, arguments, run, launch)

    def _launch(
        self,
        function: LoadedKernel,
        grid: Sequence[int],
        arguments: Sequence[Any],
        run: Run | None,
        site: CallSite | None = None,
    ) -> None:
        __tracebackhide__ = True
        kernel = self._kernel
        if kernel is None or function.variants is None:
            kernel = self._load(function)
        values = self._plan.flatten(arguments)
        launch = KernelLaunch(kernel, grid, values, run, arguments)
        may_be_on_gpu = has_device_memory()
        if may_be_on_gpu or is_mapped():
            launch.on_gpu, launch.violations = violations_of_devices(
                self._plan.names, values, self._pointers
            )
        copies = None
        if may_be_on_gpu:
            copies = HostCopies(self._plan, kernel.variants.addresses)
            launch.passed, launch.values = values, copies.replace(values)
            copies.keep(kernel.variants.effects)
        if run is not None and run.observer is not None:
            launch.site = site or CallSite(config=autotuner_config(), choices=choices())
        try:
            report = make_launch(launch)
        except TtoolsError as error:
            error.add_during(f"running kernel `{self._name}` with grid {tuple(grid)}")
            if isinstance(error, (KernelError, UnsupportedError)):  # the message has the location
                error.__traceback__ = None
            raise
        finally:
            if copies is not None:
                copies.write_back(kernel.variants.effects)
        note_launch(report.seconds)

    def _load(self, function: LoadedKernel) -> ExecutableKernel:
        variants = Variants(self._name, function.ttir)
        with during(f"loading kernel `{self._name}`"):
            self._plan.check(variants.parameters)
        self._kernel = ExecutableKernel(
            name=self._name,
            plan=self._plan,
            variants=variants,
            options=_compile_options(self._metadata),
            function=self._function,
            source=self._source,
            eager_twin=self._eager_twin(),
        )
        function.variants = variants
        return self._kernel

    def _eager_twin(self) -> EagerTwin | None:
        if self._function is None:
            return None
        # A bound method would create a reference cycle between kernel and launcher.
        return partial(_run_eagerly, self._function, self._source.signature, self._metadata)


def _compile_options(metadata: Any) -> CompileOptions:
    return CompileOptions(
        warps=int(metadata.num_warps),
        blocks=int(getattr(metadata, "num_ctas", 1)),
        stages=int(getattr(metadata, "num_stages", 1)),
        fp_fusion=bool(metadata.enable_fp_fusion),
        debug=bool(metadata.debug),
        cooperative=bool(getattr(metadata, "launch_cooperative_grid", False)),
    )


def _run_eagerly(
    function: Any,
    signature: Mapping[str, Any],
    metadata: Any,
    grid: Sequence[int],
    arguments: Sequence[Any],
    values: Sequence[Any],
    programs: str,
    grouping: Grouping | None = None,
) -> None:
    from ttools.interpreter.eager.launch import eager_twin

    kernel = eager_twin(function, signature, metadata)
    kernel.run_programs(grid, arguments, values, programs, grouping)
