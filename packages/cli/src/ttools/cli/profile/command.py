"""`ttools profile`: counts and times of kernels, and what limits them on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ttools.cli import exit_codes, options
from ttools.cli.children import say_child_launches
from ttools.cli.console import keep_stdout_for_report, require_folder, say, say_interrupted
from ttools.cli.options import given_gpu
from ttools.cli.profile import options as profile_options
from ttools.cli.progress import State, progress
from ttools.cli.work import read_work, run_work, take_over_from_upstream
from ttools.core.environment import is_gpu_broken
from ttools.core.errors import UsageError
from ttools.core.process.child_launches import child_launches
from ttools.core.process.script import Target

if TYPE_CHECKING:
    from ttools.profiler.report.analysis import Progress


def profile_command(
    words: profile_options.ProfiledArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    on: profile_options.ProfiledOnOption = "auto",
    gpu: profile_options.GpuOption = None,
    device_file: profile_options.DeviceFileOption = None,
    target: profile_options.ProfileTargetOption = None,
    context: profile_options.ContextOption = "shadow",
    counts: profile_options.CountsOption = True,
    warmup: profile_options.WarmupOption = 0,
    iterations: profile_options.IterationsOption = 1,
    data: profile_options.DataOption = "trace",
    backend: profile_options.ProtonBackendOption = None,
    mode: profile_options.ModeOption = None,
    hook: profile_options.HookOption = None,
    proton_file: profile_options.ProtonFileOption = None,
    inside: profile_options.InsideOption = None,
    trials: profile_options.TrialsOption = False,
    only: options.OnlyOption = None,
    lines: profile_options.LinesOption = False,
    line_times: profile_options.LineTimesOption = None,
    tree: profile_options.TreeOption = False,
    form: profile_options.ProfileFormatOption = "text",
    output: options.OutputOption = None,
    threads: options.ThreadsOption = None,
    dot: options.DotOption = None,
    device_map: options.DeviceMapOption = None,
    grid: options.GridOption = None,
    arg: options.ArgOption = None,
    timeout: options.TimeoutOption = None,
) -> None:
    """Count the work of Triton kernels, time them, and report what limits them.

    On a GPU, Proton times kernels; elsewhere the CPU runs and times them. Operations and bytes are
    counted by source line, without annotations. With --gpu h100, the roofline of that GPU gives
    a lower bound for each launch, and its compiler reports registers and occupancy. Options before
    SCRIPT are for ttools; everything after it is for the script. The exit status is the script's
    own.
    """
    work = read_work(words or [], module=module, code=code, grid=grid, arguments=arg or [])
    require_folder(output, proton_file)
    keep_stdout_for_report(form, output)
    take_over_from_upstream("ttools profiles")
    if inside is not None:
        from ttools.cli.profile.inside import profile_inside

        if on == "cpu":
            raise UsageError("--inside measures kernels on a GPU; omit --on cpu")
        status = profile_inside(
            work,
            inside,
            only=only,
            mode=mode,
            keep=proton_file,
            form=form,
            output=output,
            timeout=timeout,
        )
        raise typer.Exit(status)

    from ttools.cli.profile import report as profile_report
    from ttools.profiler import profile
    from ttools.profiler.report.analysis import Progress

    profiled = profile(
        on=on,
        gpu=given_gpu(gpu, device_file),
        target=target,
        only=only or None,
        threads=threads,
        dot=dot,
        counts=counts,
        line_times=lines or form == "html" if line_times is None else line_times,
        warmup=warmup,
        iterations=iterations,
        context=context,
        data=data,
        backend=backend,
        mode=mode,
        hook=hook,
        proton_file=proton_file,
        trials=trials,
        timeout=timeout or None if isinstance(work, Target) else None,
    )
    bar = progress(
        lambda: State(what="profiled", done=profiled.seen, unit="launches", one="launch")
    )
    with child_launches() as children, bar, profiled:
        status = run_work(work, device_map, quiet=True, timeout=timeout)
    if status and is_gpu_broken():
        say("note", "the script has left the GPU in an unusable state, so there is no profile")
        raise typer.Exit(status)
    steps = [Progress(stage="analysing", done=0, total=0)]
    try:
        with progress(lambda: _state(steps[-1]), shared=False):
            analysis = profiled.analyse(progress=steps.append)
    except KeyboardInterrupt:
        status = status or exit_codes.INTERRUPTED
        analysis = profiled.analyse(complete=False)
        say(
            "warning",
            "interrupted while kernels were analysed: the profile is incomplete, and has no "
            "results that need the target's compiler",
        )
    else:
        say_interrupted(status, "the profile")
    if children.kernels:
        say_child_launches(children.kernels, bool(analysis.launches), "the profile")
    elif not (analysis.launches or analysis.trials.launches or analysis.notes or status):
        expected = f"kernel named {' or '.join(only)}" if only else "Triton kernel"
        say("note", f"no {expected} was launched, so nothing was profiled")
    if form in ("text", "markdown"):
        if analysis.launches or output is not None:
            profile_report.write_tables_of(analysis, form, output, lines=lines, tree=tree)
    else:
        profile_report.write(analysis, form, output, lines=lines, target=str(work), status=status)
    if form != "text" and analysis.launches and analysis.unseen:
        say("note", analysis.unseen)
    if trials_text := str(analysis.trials):
        say("note", f"{trials_text}; --trials shows them")
    for kernel, note in analysis.notes.items():
        say("note", f"{kernel}: {note}")
    raise typer.Exit(status)


def _state(step: Progress) -> State:
    """Return the progress of the analysis, which begins after the program has ended."""
    if step.stage == "counting":
        return State(what="counting", done=step.done, total=step.total, unit="launch signatures")
    return State(
        what="analysing kernels",
        done=step.done,
        total=step.total or None,
        unit="specialisations and launch signatures",
        one="specialisation or launch signature",
    )
