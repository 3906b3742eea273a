"""`ttools tune`: finds the best configuration of each autotuned kernel, verified and timed.

`ttools tune FILE.py:NAME` tunes one kernel, or one function that launches kernels, without a
script. `--gpus` and `--ray` select where configurations run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

from ttools.cli import exit_codes, options
from ttools.cli.console import keep_stdout_for_report, require_folder, say
from ttools.cli.kernel_file import load_decorated
from ttools.cli.options import given_gpu, read_ray
from ttools.cli.progress import State, progress
from ttools.cli.targets import TTIR_SUFFIX, TargetCommand, is_kernel, read_target
from ttools.cli.tune import options as tune_options
from ttools.cli.tune import report as tune_report
from ttools.cli.tune.options import TuneFormat
from ttools.cli.tune.stores import READINGS, read_stores
from ttools.cli.work import Work, devices_for, run_work, take_over_from_upstream
from ttools.core.environment import gpu_usable
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.patches import Patches
from ttools.core.reports.numbers import seconds as shown_seconds

if TYPE_CHECKING:
    from ttools.tuner.run import TuningRun
    from ttools.tuner.tuning import TuningResult
    from ttools.tuner.workers.fork_server import ForkServer
    from ttools.tuner.workers.worker_pool import WorkerPool


def read_configs(space: Path | None) -> list[Any] | None:
    """Return the configurations of a space, and write a note of its size; None without a space.

    Raises:
        UsageError: The space is invalid or empty.
    """
    if space is None:
        return None
    from ttools.tuner.space.toml_space import load_space

    loaded = load_space(space)
    say("note", f"{space}: {loaded}")
    return loaded.triton_configs()


def run_kernel(
    word: str,
    configs: Sequence[Any] | None,
    inputs: str,
    device_map: str | None,
    *,
    on_gpu: bool = False,
) -> tuple[int, TtoolsError | None]:
    """Launch a kernel once with each of its inputs, or call a function that launches kernels.

    Args:
        word: Kernel or function as `FILE.py:NAME`.
        configs: Configurations of the space; None for those of the kernel's autotuner.
        inputs: The file that defines `inputs()`, or `FILE.py:NAME`.
        device_map: Mapping of the CUDA devices that the files name.
        on_gpu: If True, a GPU is used for timing, so arguments of a function are moved to it.

    Returns:
        The exit status, and an error of ttools to show after the report.
    """
    from ttools.core.compilation.kernel_source import kernel_within
    from ttools.tuner.space.named_kernel import autotuned, launch_all, load_inputs
    from ttools.verifier.cases.tuned import problems_of

    path, name = _named(inputs)
    with devices_for(device_map):
        kernel = load_decorated(word, or_function=True)
        if kernel_within(kernel) is None:
            if configs is not None:
                raise UsageError(
                    f"--space needs a kernel, but `{word}` is a function that launches kernels"
                )
            return _ended(word, partial(_call, word, kernel, path, name, on_gpu))
        kernel_configs = getattr(kernel, "configs", None)
        if configs is None and kernel_configs is None:
            raise UsageError(f"`{word}` has no autotuner, so it needs --space FILE.toml")
        problems = load_inputs(path, name, problems_of)
        tuner = autotuned(kernel, configs or kernel_configs or (), problems)
        return _ended(word, partial(launch_all, tuner, problems))


def _named(inputs: str) -> tuple[Path, str]:
    """Split `FILE.py` or `FILE.py:NAME`."""
    if is_kernel(inputs):
        file, _, name = inputs.rpartition(":")
        return Path(file), name
    return Path(inputs), "inputs"


def _call(word: str, function: Any, path: Path, name: str, on_gpu: bool) -> None:
    """Call a function with everything that `inputs()` returns for the sizes to tune."""
    from ttools.tuner.space.named_kernel import call_inputs
    from ttools.verifier.cases.tuned import arguments_on_gpu, problems_of

    for arguments in call_inputs(path, name, problems_of):
        if not isinstance(arguments, Mapping):
            raise UsageError(f"`{path}`: `{name}()` must return the keyword arguments of `{word}`")
        if not on_gpu:
            function(**arguments)
            continue
        with arguments_on_gpu(arguments) as moved:
            function(**moved)


def _ended(word: str, run: Callable[[], None]) -> tuple[int, TtoolsError | None]:
    """Run a function; return the exit status, and the error that ttools raised, if any."""
    try:
        run()
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED, None
    except TtoolsError as error:
        return exit_codes.TOOL_FAILURE, error
    except Exception as error:  # noqa: BLE001 - the kernel may raise anything
        last = str(error).strip().splitlines()[-1:] or ["no message"]
        say("error", f"no configuration of `{word}` runs: {type(error).__name__}: {last[0]}")
        return exit_codes.FINDINGS, None
    return exit_codes.OK, None


def read_executor(
    gpus: str | None, ray: str | None, workers: int | None
) -> Callable[[], WorkerPool] | None:
    """Return the executor that the options select; None for a process on this machine.

    Raises:
        UsageError: The options are invalid or contradict each other.
    """
    if gpus is None and ray is None:
        return None
    if gpus is not None and ray is not None:
        raise UsageError("--gpus and --ray both say where configurations run; give one of them")
    if workers == 0:
        raise UsageError(
            "--workers 0 runs everything in this process, so it cannot be used with --gpus or --ray"
        )
    if gpus is not None:
        return _on_gpus(gpus)
    assert ray is not None
    return _on_ray(ray)


def _on_gpus(text: str) -> Callable[[], WorkerPool]:
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UsageError(f"--gpus {text}: must be numbers of GPUs, as in 0,1")
    if not gpu_usable():
        raise UsageError("--gpus: there is no GPU here")
    from ttools.tuner.workers.worker_pool import gpu_workers

    return partial(gpu_workers, [int(word) for word in words])


def _on_ray(text: str) -> Callable[[], WorkerPool]:
    address, actors = read_ray(text, what="configurations", extra="ttools-tuner[ray]")
    from ttools.tuner.workers.ray_workers import ray_workers

    return partial(ray_workers, actors, gpus=1.0 if gpu_usable() else 0.0, address=address)


STORE = Path("ttools-tunings.sqlite")


class TuneCommand(TargetCommand):
    """The `tune` command, in which the names of its subcommands do not name scripts."""

    reserved = tuple(READINGS)


def tune_command(
    words: tune_options.TunedArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    space: tune_options.SpaceOption = None,
    inputs: tune_options.InputsOption = None,
    search: tune_options.SearchOption = "guided",
    effort: tune_options.EffortOption = "default",
    trials: tune_options.TrialsOption = None,
    seconds: tune_options.SecondsOption = None,
    within: tune_options.WithinOption = None,
    gpu: tune_options.GpuOption = None,
    device_file: tune_options.GpuFileOption = None,
    on: tune_options.OnOption = None,
    only: tune_options.TunedOnlyOption = None,
    sanitize: tune_options.SanitizeOption = False,
    rtol: tune_options.RtolOption = None,
    reference: tune_options.ReferenceOption = None,
    timeout: tune_options.TimeoutOption = 60.0,
    scratch: tune_options.ScratchOption = None,
    reproducible: tune_options.ReproducibleOption = None,
    store: tune_options.StoreOption = STORE,
    fresh: tune_options.FreshOption = False,
    lock: tune_options.LockOption = None,
    locked: tune_options.LockedOption = False,
    form: tune_options.TuneFormatOption = None,
    history: tune_options.HistoryOption = False,
    output: options.OutputOption = None,
    threads: options.ThreadsOption = None,
    workers: tune_options.WorkersOption = None,
    gpus: tune_options.GpusOption = None,
    ray: tune_options.RayOption = None,
    seed: options.SeedOption = 0,
    device_map: options.DeviceMapOption = None,
) -> None:
    """Find the best configuration of each autotuned kernel, and verify every configuration.

    Options before SCRIPT are for ttools; everything after it is for the script. Each key of each
    autotuned kernel that the script launches is tuned on this machine's GPU or CPU. For a GPU that
    is not present, configurations are ranked without timing. A configuration that fails or whose
    outputs differ cannot win. To tune a kernel without a script, give FILE.py:KERNEL with --space
    and --inputs. The exit status is the script's own; 4 if the script succeeds and launches no
    autotuned kernel.
    """
    if module is None and code is None and words and words[0] in TuneCommand.reserved:
        read_stores(words, form, output, history, only or ())
        return
    if form not in (None, "text", "markdown", "json", "html"):
        raise UsageError(f"--format {form} is available only with `ttools tune export FILE`")
    named = module is None and code is None and bool(words) and is_kernel((words or [""])[0])
    _require_both(named, words or [], space, inputs)
    work = None if named else _work(words or [], module, code)
    configs = read_configs(space)
    require_folder(output, store, lock)
    keep_stdout_for_report(form, output)
    take_over_from_upstream("ttools tunes")
    measures = read_executor(gpus, ray, workers)
    predicted = given_gpu(gpu, device_file)
    timed = on != "cpu" and predicted is None and measures is None and not locked
    program = json.dumps([str(Path.cwd()), module, code, *(words or [])])
    timed = timed and gpu_usable()
    is_known = timed and not fresh and _is_complete(store, program, words or [])
    servers = _servers() if timed and workers != 0 and not is_known else {}
    from ttools.tuner.measure.checks import Checks
    from ttools.tuner.options import TuneOptions
    from ttools.tuner.run import TuningRun
    from ttools.tuner.store.lock import LockError

    run = TuningRun(
        TuneOptions(
            search=search,
            effort=effort,
            trials=trials,
            seconds=seconds,
            within=within,
            seed=seed,
            fresh=fresh,
            workers=workers,
            timeout=timeout,
            reproducible=reproducible or "",
            checks=Checks(
                sanitize=sanitize,
                rtol=rtol,
                scratch=tuple(scratch or ()),
                reference=reference or "",
            ),
        ),
        store=store,
        lock=lock,
        locked=locked,
        gpu=predicted,
        only=only or None,
        threads=threads,
        on=on,
        measures=measures,
        announce=lambda text: say("note", text),
        servers=servers,
        starts_early=not is_known,
        program=program,
    )
    failure: TtoolsError | None = None
    status = exit_codes.OK
    try:
        bar = progress(lambda: _state(run), shared=work is not None)
        with bar, _interrupts_as_notes(), run:
            if work is not None:
                status = run_work(work, device_map, quiet=True)
            else:
                assert words  # see `named`
                assert inputs is not None
                status, failure = run_kernel(
                    words[0], configs, inputs, device_map, on_gpu=run.on_gpu
                )
    except LockError as error:  # the report is written despite the error
        failure = failure or error
    if work is None and status == exit_codes.OK and not all(map(_is_won, run.results)):
        status = exit_codes.FINDINGS
    try:
        _report(run, form, output, str(work or (words or [""])[0]), status)
    finally:
        _show_messages(run, store, only or (), failed=status != exit_codes.OK)
    if failure is not None:
        raise failure
    is_empty = not (run.results or run.single or run.locked)
    raise typer.Exit(status or (exit_codes.UNKNOWN if is_empty else exit_codes.OK))


@contextmanager
def _interrupts_as_notes() -> Iterator[None]:
    """Show a note instead of a traceback on Ctrl-C, which is the way to end a tuning early."""

    def wrapping(shown: Callable[..., object]) -> Callable[..., object]:
        def hook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            if issubclass(kind, KeyboardInterrupt):
                say("note", "interrupted")
            else:
                shown(kind, error, trace)

        return hook

    with Patches() as patches:
        patches.wrap(sys, "excepthook", wrapping)
        yield


def _is_won(result: TuningResult) -> bool:
    return result.winner is not None or not result.trials


def _require_both(
    named: bool, words: Sequence[str], space: Path | None, inputs: str | None
) -> None:
    """Check that a kernel in a file has inputs, and that a script has none."""
    if not named:
        for option, value in (("--space", space), ("--inputs", inputs)):
            if value is not None:
                raise UsageError(
                    f"{option} is for FILE.py:KERNEL; a script launches its own kernels"
                )
    elif len(words) > 1:
        raise UsageError(f"`{words[0]}` takes no arguments, but got `{words[1]}`")
    elif inputs is None:
        raise UsageError(f"`{words[0]}` needs --inputs FILE.py, which defines inputs()")


def _is_complete(store: Path, program: str, words: Sequence[str]) -> bool:
    """Return whether a store has all results for a program whose script has not changed since."""
    if not store.exists():
        return False
    from ttools.tuner.store.store import TuningStore

    tuning_store = TuningStore(store)
    ended = tuning_store.ended(program)
    tuning_store.close()
    script = Path(words[0].partition(":")[0]) if words else Path()
    return ended > (script.stat().st_mtime if script.is_file() else 0.0)


def _servers() -> Mapping[str, ForkServer]:
    """Return the servers from which GPU workers are forked; they import in parallel."""
    from ttools.tuner.workers.fork_server import gpu_servers

    return gpu_servers()


def _work(words: Sequence[str], module: str | None, code: str | None) -> Work:
    if module is None and code is None and words and words[0].endswith(TTIR_SUFFIX):
        raise UsageError("a .ttir file is one configuration: tune the script that launches it")
    return read_target(words, module, code)


def _state(run: TuningRun) -> State:
    results = list(run.results)
    if not results:
        return State(what="tuning", done=0, unit="kernels so far", one="kernel so far")
    latest = results[-1]
    trials = list(latest.trials.values())
    costs = [trial.cost for trial in trials if trial.cost is not None]
    rejected = sum(trial.status != "ok" for trial in trials)
    done = sum(not trial.same_as for trial in trials)
    facts = (
        f"best {shown_seconds(min(costs))}" if costs else "none correct yet",
        f"{rejected:,} rejected",
    )
    return State(
        what=f"tuning {latest.problem.kernel}",
        done=done,
        total=max(run.planned(latest), done),
        unit="configurations",
        facts=(*facts, *((f"kernel and key {len(results)}",) if len(results) > 1 else ())),
        waits=run.is_searching,
    )


def _report(
    run: TuningRun,
    form: TuneFormat | None,
    output: Path | None,
    target: str,
    status: int,
) -> None:
    entries = [result.entry() for result in run.results]
    for result in run.results:
        for note in result.notes:
            say("warning", f"{result.problem}: {note}")
    for note in [*run.notes, *run.warnings]:
        say("warning", note)
    if run.results and not run.locked:
        for name in run.unknown_scratch:
            say("warning", f"no tuned kernel has a parameter `{name}` (--scratch)")
    if form == "json":
        tune_report.write_as_json(
            entries,
            output,
            script={"target": target, "exit_code": status},
            run={str(result.problem): _planned(run, result) for result in run.results},
            notes=[note for result in run.results for note in result.notes] + run.notes,
        )
    elif form == "markdown":
        tune_report.write_as_markdown(entries, output)
    elif form == "html":
        tune_report.write_as_html(entries, output)
    elif entries:
        tune_report.write_as_text(entries, output)


def _planned(run: TuningRun, result: TuningResult) -> dict[str, Any]:
    """Return a description of the plan for a problem, with the number of new trials."""
    return {
        "effort": run.effort,
        "space": result.space,
        "budget": run.planned(result),
        "new_trials": len(result.new),
    }


def _show_messages(run: TuningRun, store: Path, only: Sequence[str], failed: bool) -> None:
    from ttools.core.reports.report import counted

    for kernel in run.single:
        say("note", f"`{kernel}` has a single configuration, so there was nothing to tune")
    if run.results:
        tried = sum(len(result.trials) for result in run.results)
        new = sum(len(result.new) for result in run.results)
        say(
            "note",
            f"{counted(tried, 'configuration')}, {new} of them tried in this run; see {store}",
        )
    elif failed:
        return  # the failure of the script explains it
    elif not run.single and not run.locked:
        which = f" {' or '.join(f'`{name}`' for name in only)}" if only else ""
        # Untuned launches on a GPU are not counted.
        kind = "Triton" if not (run.clock.launches or run.on_gpu) else "autotuned"
        say("note", f"no {kind} kernel{which} was launched, so nothing was tuned")
