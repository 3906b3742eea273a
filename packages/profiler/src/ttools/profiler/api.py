"""`profile()`: times and counts the launches of Triton kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.gpus.devices import Device, device_of_machine, read_device
from ttools.core.gpus.targets import read_target
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
    device: str | Device | None = None,
    target: str | None = None,
    only: Sequence[str] | None = None,
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
    """Record the launches of kernels, to report their work, their times, and what limits them.

    Args:
        on: Where kernels run and are timed: on a GPU by Proton, or on the CPU. `auto` is the GPU if
            there is one.
        device: Name of a GPU, such as `h100`, whose roofline bounds each launch from below. By
            default the machine's own GPU, if it is in the table; other GPUs as a `Device`, see
            `read_device_file`. `Profile.analyse` may be given another.
        target: Architecture of a GPU, such as `sm_90`: `Profile.analyse` compiles kernels for it,
            which shows registers, spills, shared memory and occupancy. By default the device's.
        only: Names of the kernels to profile; all others run unprofiled.
        threads: Number of threads that run the programs of a launch on the CPU; by default as many
            as torch uses.
        counts: If False, launches on a GPU are not counted. Counting may copy the tensors of the
            first of equal launches to the host.
        line_times: If True, the distribution of a kernel's time over its lines is estimated on the
            CPU: its first launch, and one that takes twice as long as those sampled so far, is
            repeated for a twentieth of a second while samples are taken. Otherwise the first launch
            of a kind is made twice, to count it and to time it, and later ones once.
        warmup: Number of first launches with equal kernel, specialisation, grid and relevant
            numbers that are left out of all figures.
        iterations: Number of times that each launch of the program is made. Before each, the memory
            that it may have written is restored, so that the program's results stay the same. If
            more than one, launches that warm up come on top. Trials of autotuners are made once.
        context: How launches are distinguished in the tree, with Proton's names: `shadow` by the
            program's scopes, `python` by its call stack.
        data: On a GPU, `trace` times every launch; `tree` keeps sums of equal launches and costs
            less.
        backend: On a GPU, Proton's source of times; the GPU's own by default.
        mode: On a GPU, the mode of Proton's backend: `periodic_flushing`, `pcsampling`.
        hook: On a GPU, with `triton` Proton's file includes metadata of launches, see
            `proton.start`; the profile has it in any case.
        proton_file: On a GPU, where to keep the file that Proton writes.
        dot: On the CPU, the arithmetic of products of f32 tiles, see `interpret`.
        trials: On a GPU, if True, trials of autotuners are profiled like other launches; by default
            they are left out of all figures. On the CPU the first configuration runs, without
            trials.
        timeout: On the CPU, seconds after which a launch, or its counting, is stopped and raises
            `KernelError`; by default there is no limit.

    Raises:
        UsageError: An argument has another value than those, or there is no GPU.

    Examples:
        with profile(device="h100") as prof:
            kernel[grid](x, y, n)
        print(prof.analyse().frame[["kernel", "flops", "unique_bytes", "bound_s", "limited_by"]])
    """
    if isinstance(only, str):
        raise UsageError(f"only={only!r}: give a list of names")
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
            "backend='instrumentation' measures cycles inside kernels, no times of launches; run "
            "it with proton.start and open its file with `ttools profile view`"
        )
    repetition = Repetition(warmup=warmup, iterations=iterations)
    has_gpu = gpu_usable()
    if on == "gpu" and not has_gpu:
        raise UsageError("on='gpu': there is no GPU here that torch can use")
    known = read_device(device) if isinstance(device, str) else device or device_of_machine()
    wanted = read_target(target) if target else known.target if known else None
    session: Session
    if on == "cpu" or not has_gpu:
        given: dict[str, object] = {"data": data != "trace", "backend": backend, "mode": mode}
        given |= {"hook": hook, "proton_file": proton_file}
        if trials:
            raise UsageError(
                "trials are autotuners' on a GPU; on the CPU the first configuration runs, untried"
            )
        if wrong := [name for name, value in given.items() if value]:
            raise UsageError(
                f"{wrong[0]} is Proton's, which times kernels on a GPU; on the CPU "
                "every launch is timed"
            )
        session = CpuSession(only, threads, context, repetition, line_times, dot, timeout)
    else:
        if timeout is not None:
            raise UsageError("timeout is for launches on the CPU; on a GPU they cannot be stopped")
        if warmup and data == "tree":
            raise UsageError(
                "data='tree' keeps sums, from which launches that warm up cannot be separated; "
                "leave out `warmup`, or take data='trace'"
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
    return Profile(session, known, wanted)
