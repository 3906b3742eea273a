"""`ttools interpret`: runs a script, a module, code or a `.ttir` file on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ttools.cli import options, statistics
from ttools.cli.console import require_folder, say
from ttools.cli.targets import read_target, ttir_path
from ttools.cli.ttir import Launch, read_launch, run_launch
from ttools.core.device_map import map_devices
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.script import Target, run_target


def interpret_command(
    words: options.WordsArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    engine: options.EngineOption = options.Engine.NATIVE,
    threads: options.ThreadsOption = None,
    order: options.OrderOption = options.Order.NATURAL,
    seed: options.SeedOption = 0,
    programs: options.ProgramsOption = None,
    only: options.OnlyOption = None,
    device_map: options.DeviceMapOption = None,
    first_config: options.FirstConfigOption = False,
    stats: options.StatsOption = False,
    form: options.FormatOption = options.ReportFormat.TEXT,
    output: options.OutputOption = None,
    grid: options.GridOption = None,
    arg: options.ArgOption = None,
    dump_outputs: options.DumpOutputsOption = None,
) -> None:
    """Run Triton kernels on the CPU, as native code.

    Options before SCRIPT are ours, all that follows it is the script's. The exit status is the
    script's own; 2 is a wrong use of this command, 3 a failure of ttools.
    """
    del engine  # the only one there is so far
    named = module is None and code is None
    ttir = ttir_path(words or []) if named else None
    work: Launch | Target
    if ttir is not None:
        work = read_launch(ttir, grid, arg or [])
    else:
        work = read_target(words or [], module, code)
        _refuse_without_ttir({"--grid": grid, "--arg": arg, "--dump-outputs": dump_outputs})
    require_folder(output, dump_outputs)
    _take_over_from_upstream()
    from ttools.interpreter.api import interpret

    with interpret(
        only=only or None,
        threads=threads,
        order=order.value,
        seed=seed,
        programs=programs,
        first_config=first_config,
    ) as run:
        if isinstance(work, Launch):
            status = run_launch(work, dump_outputs)
        else:
            with _devices(device_map):
                status = run_target(work)
    for warning in run.warnings:
        say("warning", warning)
    if not run.stats:
        say("note", "no Triton kernel was launched, so nothing was interpreted")
    if stats or output or form is options.ReportFormat.JSON:
        name = str(work)
        statistics.report(run.stats, form=form.value, output=output, target=name, exit_code=status)
    raise typer.Exit(status)


def _refuse_without_ttir(values: dict[str, object]) -> None:
    given = [name for name, value in values.items() if value]
    if given:
        raise UsageError(f"{given[0]} is for .ttir files; a script launches its own grids")


def _take_over_from_upstream() -> None:
    """Unsets TRITON_INTERPRET, which Triton reads when a kernel is decorated."""
    if os.environ.pop("TRITON_INTERPRET", "0") not in ("", "0"):
        say("note", "TRITON_INTERPRET is set; it is unset for this run, ttools interprets instead")


@contextmanager
def _devices(choice: options.DeviceMap | None) -> Iterator[None]:
    """Maps CUDA devices to the CPU when asked to, or by default when there is no GPU."""
    if choice is options.DeviceMap.OFF or (choice is None and gpu_usable()):
        yield
        return

    def announce() -> None:
        say("note", "no GPU here: the CPU stands in for cuda:0 (--device-map off to disable)")

    with map_devices({"cuda": "cpu"}, on_first_use=None if choice else announce):
        yield
