"""The options of the pytest plugin: on the command line, and in pytest's configuration file.

pytest loads this module in every run, so it imports nothing else until a run uses the options.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ttools.core.findings.findings import Severity

_SANITIZE = "--ttools-sanitize"
_OFF = ("off", "false", "no", "0", "")
_ON = ("on", "true", "yes", "1")
_SEVERITIES = ("error", "warning", "note")
_VIEW_BOUNDS = ("error", "warning", "off")
_FORMATS = ("text", "markdown", "json", "brief", "sarif", "junit", "github", "html")


def add_options(parser: pytest.Parser) -> None:
    """Declare the options, and the settings of the same names in the configuration file."""
    group = parser.getgroup("ttools", "checking Triton kernels")
    add = group.addoption
    add(
        _SANITIZE,
        nargs="?",
        const="default",
        metavar="CHECKS",
        help="check the Triton kernels that tests launch; `off` overrides the configuration file "
        "and markers",
    )
    add(
        "--ttools-fail-on",
        choices=_SEVERITIES,
        help="lowest severity of findings that fail a test (default: error)",
    )
    add(
        "--ttools-view-bounds",
        choices=_VIEW_BOUNDS,
        help="severity of accesses outside a tensor's elements but inside its storage (default: "
        "error for stores, warning for loads)",
    )
    add(
        "--ttools-all-configs",
        action="store_true",
        help="run every configuration of autotuned kernels",
    )
    add(
        "--ttools-poison",
        action="store_true",
        help="unwritten memory and undefined lanes hold NaN, or junk if they are integers",
    )
    add(
        "--ttools-suggest-tolerance",
        action="store_true",
        help="print rtol and atol for comparisons of the outputs that the check accuracy measures",
    )
    add(
        "--ttools-timeout",
        metavar="SECONDS",
        help="time limit for each phase of a launch: its compilation, its run and each analysis; "
        "0 for no limit (default: 600)",
    )
    add(
        "--ttools-suppressions",
        action="append",
        metavar="FILE",
        help="file of rules that suppress findings; repeatable",
    )
    add("--ttools-baseline", metavar="FILE", help="file of known findings, which are suppressed")
    add(
        "--ttools-update-baseline",
        action="store_true",
        help="write the findings of this run to the baseline; they fail no test",
    )
    add(
        "--ttools-format",
        choices=_FORMATS,
        help="write one report of the whole run in this format, to the terminal unless "
        "--ttools-output names a file",
    )
    add("--ttools-output", metavar="FILE", help="file for this report")
    add(
        "--ttools-pdb-on-finding",
        action="store_true",
        help="start pdb at the first finding that fails a test: in the kernel, at its line",
    )
    add(
        "--ttools-device-map",
        metavar="cuda=cpu[,…]|off",
        help="device that stands in for CUDA devices if --ttools-sanitize is given (default: the "
        "CPU if there is no GPU)",
    )
    add(
        "--ttools-gpu",
        metavar="GPU",
        help="GPU that the CPU emulates: h100, a100, … or an architecture such as sm_90; replaces "
        "--ttools-device-map",
    )
    add(
        "--ttools-specialisations",
        action="store_true",
        help="print how often the kernels of all tests were compiled, and why",
    )
    parser.addini("ttools_specialisations", "print how often kernels were compiled", type="bool")
    parser.addini("ttools_device_map", "device that stands in for CUDA devices")
    parser.addini("ttools_gpu", "GPU that the CPU emulates")
    parser.addini("ttools_sanitize", "checks to run on the kernels that tests launch")
    parser.addini("ttools_fail_on", "lowest severity of findings that fail a test", default="error")
    parser.addini("ttools_view_bounds", "severity of accesses outside a tensor, inside its storage")
    parser.addini("ttools_all_configs", "run every configuration", type="bool", default=False)
    parser.addini("ttools_poison", "fill undefined memory with NaN or junk", type="bool")
    parser.addini("ttools_timeout", "time limit for each phase of a launch, in seconds")
    parser.addini("ttools_suppressions", "files of suppressions", type="paths", default=[])
    parser.addini("ttools_baseline", "file of known findings")


def keep_paths(config: pytest.Config, arguments: list[str]) -> None:
    """Read the argument after `--ttools-sanitize` as a path, unless it names checks.

    In `pytest --ttools-sanitize tests/kernels`, the option has no value, but argparse takes
    `tests/kernels` as its value. This function inserts the default value before the path.

    Args:
        config: Configuration of pytest before the final parsing of options.
        arguments: Arguments of the command line; changed in place.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for n in range(min(end, len(arguments) - 1)):
        follows = arguments[n + 1]
        if arguments[n] == _SANITIZE and not follows.startswith("-") and _is_path(follows):
            arguments[n] = f"{_SANITIZE}=default"
            # pytest looks for conftest.py in these folders before it parses the options again.
            parsed = config.known_args_namespace
            parsed.file_or_dir = [*parsed.file_or_dir, follows]


def _is_path(text: str) -> bool:
    if re.fullmatch(r"[\w, ]*", text) is None:
        return True
    return Path(text).exists() and not _names_checks(text)


def _names_checks(text: str) -> bool:
    from ttools.core.errors import UsageError
    from ttools.sanitizer.checks.registry import parse_checks

    try:
        return text.lower() in (*_ON, *_OFF) or bool(parse_checks([text]))
    except UsageError:
        return False


@dataclass(frozen=True, kw_only=True)
class PluginOptions:
    """Values of the options of a run.

    Attributes:
        checks: Names of the checks to make in all tests; None to make only the checks that markers
            request.
        off: True if nothing is checked, even if markers request it.
        fail_on: Lowest severity of findings that fail a test.
        view_bounds: Severity of accesses outside a view but inside its storage; None for the
            default.
        all_configs: True to run every configuration of autotuned kernels.
        poison: True to fill undefined memory and lanes with NaN or negative integers.
        suggests_tolerances: True to print a tolerance for each output.
        timeout: Time limit for each phase of a launch in seconds; 0 for none, None for the default.
        suppressions: Absolute paths of files of rules.
        baseline: Absolute path of the file of known findings.
        updates_baseline: True to write the baseline instead of reading it.
        form: Format of the report of the whole run; None for no report.
        output: Absolute path of the file for this report; None for the terminal.
        debugs: True to start a debugger at a finding.
        device_map: Device to which CUDA devices are mapped; None for the default.
        summarises_compilations: True to print how often kernels were compiled.
    """

    checks: str | None
    off: bool
    fail_on: Severity
    view_bounds: Any
    all_configs: bool
    poison: bool
    suggests_tolerances: bool
    timeout: float | None
    suppressions: tuple[Path, ...]
    baseline: Path | None
    updates_baseline: bool
    form: str | None
    output: Path | None
    debugs: bool
    device_map: str | None
    summarises_compilations: bool

    @property
    def reports(self) -> bool:
        """True if the findings of all tests are needed for a report or for the baseline."""
        return self.form is not None or self.updates_baseline


def read_options(config: pytest.Config) -> PluginOptions:
    """Read the options of a run.

    Raises:
        pytest.UsageError: An option has an invalid value. Most options are only validated if the
            run makes checks.
    """
    option = config.getoption(_SANITIZE)
    chosen = str(config.getini("ttools_sanitize") or "") if option is None else option
    chosen = "default" if chosen.lower() in _ON else chosen.lower()
    files = config.getoption("--ttools-suppressions") or config.getini("ttools_suppressions")
    output = config.getoption("--ttools-output")
    form = config.getoption("--ttools-format") or ("text" if output else None)
    options = PluginOptions(
        checks=None if chosen in _OFF else chosen,
        off=option is not None and chosen in _OFF,
        fail_on=config.getoption("--ttools-fail-on") or config.getini("ttools_fail_on"),
        view_bounds=config.getoption("--ttools-view-bounds")
        or config.getini("ttools_view_bounds")
        or None,
        all_configs=config.getoption("--ttools-all-configs") or config.getini("ttools_all_configs"),
        poison=bool(config.getoption("--ttools-poison") or config.getini("ttools_poison")),
        suggests_tolerances=config.getoption("--ttools-suggest-tolerance"),
        timeout=_timeout(config),
        # Tests may change the current directory.
        suppressions=tuple(Path(file).absolute() for file in files),
        baseline=_baseline(config),
        updates_baseline=config.getoption("--ttools-update-baseline"),
        form=form,
        output=None if output is None else Path(output).absolute(),
        debugs=config.getoption("--ttools-pdb-on-finding"),
        device_map=_device_map(config),
        summarises_compilations=bool(
            config.getoption("--ttools-specialisations") or config.getini("ttools_specialisations")
        ),
    )
    if options.checks is not None:
        _validate(options, config, files)
    return options


def _timeout(config: pytest.Config) -> float | None:
    option = config.getoption("--ttools-timeout")
    name = "ttools_timeout" if option is None else "--ttools-timeout"
    text = str(config.getini("ttools_timeout") or "") if option is None else option
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise pytest.UsageError(f"{name} is `{text}`: must be a number of seconds, or 0")
    return seconds


def _device_map(config: pytest.Config) -> str | None:
    """Return the device map of the options or, if they have none, of the configuration file."""
    names = "--ttools-device-map", "--ttools-gpu"
    device_map: str | None = config.getoption(names[0])
    gpu: str | None = config.getoption(names[1])
    if device_map is None and gpu is None:
        names = "ttools_device_map", "ttools_gpu"
        device_map, gpu = (str(config.getini(name) or "") or None for name in names)
    if gpu is None:
        return device_map
    from ttools.core.device_map.map_option import emulated_gpu
    from ttools.core.errors import UsageError

    try:
        return emulated_gpu(device_map, gpu, names)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _baseline(config: pytest.Config) -> Path | None:
    option = config.getoption("--ttools-baseline")
    if option is not None:
        return Path(option).absolute()
    named = str(config.getini("ttools_baseline") or "")
    folder = config.inipath.parent if config.inipath is not None else config.rootpath
    return folder / named if named else None


def _validate(options: PluginOptions, config: pytest.Config, files: Sequence[Any]) -> None:
    from ttools.core.errors import UsageError
    from ttools.core.findings.baseline import Baseline
    from ttools.core.findings.suppressions import SuppressionFile
    from ttools.sanitizer.checks.registry import parse_checks

    checks_setting = "ttools_sanitize" if config.getoption(_SANITIZE) is None else _SANITIZE
    assert options.checks is not None
    if options.updates_baseline and options.baseline is None:
        raise pytest.UsageError("--ttools-update-baseline needs --ttools-baseline=FILE")
    setting = checks_setting
    try:
        parse_checks([options.checks])
        setting = "ttools_suppressions"
        for file in files:
            SuppressionFile(Path(file))
        setting = "ttools_baseline"
        if options.baseline is not None and not options.updates_baseline:
            Baseline(options.baseline)
    except UsageError as error:
        raise pytest.UsageError(f"{setting}: {error}") from None
    for name, value, choices in (
        ("ttools_fail_on", options.fail_on, _SEVERITIES),
        ("ttools_view_bounds", options.view_bounds, (None, *_VIEW_BOUNDS)),
    ):
        if value not in choices:
            listed = ", ".join(filter(None, choices))
            raise pytest.UsageError(f"{name} is `{value}`: must be one of {listed}")
    for target in (options.output, options.baseline if options.updates_baseline else None):
        if target is not None and not target.parent.is_dir():
            raise pytest.UsageError(f"cannot write `{target}`: there is no such folder")
