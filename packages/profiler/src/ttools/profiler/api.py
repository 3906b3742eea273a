"""`profile()`: times the launches of Triton kernels and counts their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import ttools.profiler.report.formats  # noqa: F401 (registers the formats of results)
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.gpus.devices import Device, device_of_machine, one_gpu, read_gpu
from ttools.interpreter.abi.module import DotMode
from ttools.profiler.gpu.proton import Data, Hook, ProtonOptions
from ttools.profiler.gpu.session import GpuSession
from ttools.profiler.report.profile import Profile
from ttools.profiler.run.origin import Context
from ttools.profiler.run.repetition import Repetition
from ttools.profiler.run.session import CpuSession, Session


def profile(
    *,
    on: Literal["auto", "cpu", "gpu"] = "auto",
    gpu: str | Device | None = None,
    device: str | Device | None = None,
    target: str | None = None,
    only: Sequence[str] | Callable[[str], bool] | None = None,
    threads: int | None = None,
    counts: bool = True,
    line_times: bool = False,
    warmup: int = 0,
    iterations: int = 1,
    context: Context = "shadow",
    data: Data = "trace",
    backend: str | None = None,
    mode: str | None = None,
    hook: Hook | None = None,
    proton_file: Path | None = None,
    dot: DotMode | None = None,
    trials: bool = False,
    timeout: float | None = None,
) -> Profile:
    """Record the launches of kernels, and report their work, times and limits.

    Args:
        on: Where kernels run and are timed: on a GPU by Proton, or on the CPU. `auto` is the GPU if
            there is one.
        gpu: Name or architecture of a GPU, such as `h100` or `sm_90`. Its roofline bounds the times
            of launches from below, and `Profile.analyse` compiles kernels for it to report
            registers, spills, shared memory and occupancy. A GPU that is not in the table can be
            described by a `Device`, see `read_device_file`. By default the machine's own GPU, if it
            is in the table.
        device: Former name of `gpu`.
        target: Architecture to compile for, if it is not that of the GPU.
        only: Names of the kernels to profile, or a predicate on names; all others run unprofiled.
        threads: Number of threads that run the programs of a launch on the CPU; by default as many
            as torch uses.
        counts: If False, launches on a GPU are not counted. Counting may copy the tensors of the
            first launch of each group of equal launches to the host.
        line_times: If True, estimate on the CPU how the time of a kernel is distributed over its
            lines. The first launch, and later ones that take twice as long as those sampled so far,
            are repeated for a twentieth of a second while samples are taken. For an NVIDIA GPU,
            the analysis also determines what masks in loops cost, for which it compiles some
            kernels twice.
        warmup: Number of first launches of each kind that only warm up and are left out of all
            figures. Launches of a kind have the same kernel, specialisation, grid and scalar
            arguments that affect the work.
        iterations: Number of times that each launch of the program is made. Before each repetition,
            the memory that it may have written is restored, so that the program's results stay the
            same. If it is more than one, the launches that warm up are additional. Trials of
            autotuners are made once.
        context: How launches are grouped in the call tree, with Proton's names: `shadow` by the
            program's scopes, `python` by its call stack.
        data: On a GPU, `trace` times every launch; `tree` keeps sums of equal launches and costs
            less.
        backend: On a GPU, Proton's source of times; the GPU's own by default.
        mode: On a GPU, the mode of Proton's backend: `periodic_flushing`, `pcsampling`.
        hook: On a GPU, `triton` adds metadata of launches to Proton's file, see `proton.start`; the
            profile contains them in any case.
        proton_file: On a GPU, path at which to keep the file that Proton writes.
        dot: On the CPU, the arithmetic of products of f32 tiles, see `interpret`.
        trials: On a GPU, if True, trials of autotuners are profiled like other launches; by default
            they are left out of all figures. On the CPU the first configuration runs, without
            trials.
        timeout: On the CPU, seconds after which a launch, or its counting, is stopped and raises
            `KernelError`; None or 0, the default, for no limit.

    Raises:
        UsageError: An argument is invalid, or `on` is `gpu` and there is no GPU.

    Examples:
        with profile(gpu="h100") as prof:
            kernel[grid](x, y, n)
        print(prof.analyse().frame[["kernel", "flops", "unique_bytes", "bound_s", "limited_by"]])
    """
    if on not in ("auto", "cpu", "gpu"):
        raise UsageError(f"on={on!r}: must be auto, cpu or gpu")
    if context not in ("shadow", "python"):
        raise UsageError(f"context={context!r}: must be shadow or python")
    if data not in ("trace", "tree"):
        raise UsageError(f"data={data!r}: must be trace or tree")
    if hook not in (None, "triton"):
        raise UsageError(f"hook={hook!r}: must be triton")
    if backend == "instrumentation":
        raise UsageError(
            "backend='instrumentation' measures cycles inside kernels, not times of launches; "
            "start it with proton.start and open its file with `ttools profile view`"
        )
    repetition = Repetition(warmup=warmup, iterations=iterations)
    has_gpu = gpu_usable()
    if on == "gpu" and not has_gpu:
        raise UsageError("on='gpu': there is no GPU here that torch can use")
    named = one_gpu(gpu, device) or device_of_machine()
    chosen = read_gpu(named) if named else None
    wanted = read_gpu(target).target if target else chosen.target if chosen else None
    session: Session
    if on == "cpu" or not has_gpu:
        proton_options: dict[str, object] = {
            "data": data != "trace",
            "backend": backend,
            "mode": mode,
        }
        proton_options |= {"hook": hook, "proton_file": proton_file}
        if trials:
            raise UsageError(
                "trials=True needs a GPU; on the CPU, the first configuration runs without trials"
            )
        if wrong := [name for name, value in proton_options.items() if value]:
            raise UsageError(
                f"{wrong[0]} is an option of Proton, which times kernels on a GPU; on the CPU "
                "every launch is timed"
            )
        session = CpuSession(only, threads, context, repetition, line_times, dot, timeout or None)
    else:
        if timeout:
            raise UsageError(
                "timeout applies only to launches on the CPU; launches on a GPU cannot be stopped"
            )
        if warmup and data == "tree":
            raise UsageError(
                "data='tree' keeps only sums, from which warm-up launches cannot be separated; "
                "omit `warmup`, or use data='trace'"
            )
        options = ProtonOptions(context=context, data=data, backend=backend, mode=mode, hook=hook)
        session = GpuSession(
            only,
            counts=counts,
            options=options,
            keep=proton_file,
            repetition=repetition,
            trials=trials,
            target=wanted,
        )
    device_of_profile = chosen.device if chosen else None
    return Profile(session, device_of_profile, wanted, line_costs=line_times)
