"""The public functions of all packages have the same shape: results, errors and parameters."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
import triton
import triton.language as tl

from ttools.cli.interpret import command as interpret_command
from ttools.cli.profile import options as profile_options
from ttools.cli.profile import sweep as sweep_command
from ttools.cli.prove import command as prove_command
from ttools.cli.sanitize import command as sanitize_command
from ttools.cli.tune import options as tune_options
from ttools.cli.verify import command as verify_command
from ttools.core.errors import FailuresError, KernelError, UsageError
from ttools.core.findings.findings import FindingsError
from ttools.core.reports.result import Result
from ttools.interpreter import device_map, interpret
from ttools.profiler import Sweep, profile
from ttools.prove import prove
from ttools.sanitizer import sanitize
from ttools.tuner import TuneOptions, TuningRun, tune
from ttools.verifier import VerifyOptions, verify
from ttools.watch import open_trace, watch

CANDIDATES = Path(__file__).parents[1] / "verifier" / "kernels_for_verify.py"


def public_names(member: str) -> list[str]:
    """Return the names of the functions and classes that a package offers."""
    return list(import_module(f"ttools.{member}").__all__)


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@triton.jit
def raise_at_64(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.device_assert(BLOCK < 64)
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def run(n: int, claimed: int | None = None) -> None:
    """Copy n elements, or access as many as claimed."""
    claimed = n if claimed is None else claimed
    copy[(triton.cdiv(claimed, 64),)](torch.ones(n), torch.empty(n), claimed, BLOCK=64)


def run_past_the_end(n: int) -> None:
    run(n, n + 1)


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def copied(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    copy[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def shortened(x: torch.Tensor) -> torch.Tensor:
    return x[1:]


def inputs(n: int) -> dict[str, torch.Tensor]:
    return {"x": torch.ones(n)}


def interpreted(claimed: int) -> Any:
    with interpret() as result:
        run(64, claimed)
    return result


def sanitized(claimed: int) -> Any:
    with sanitize() as result:
        run(64, claimed)
    return result


def watched(claimed: int, **options: Any) -> Any:
    with watch(["offs"], **options) as result:
        run(64, claimed)
    return result


def profiled() -> Any:
    with profile(on="cpu") as result:
        run(64)
    return result


def swept(*implementations: Callable[..., Any]) -> Any:
    named = {function.__name__: function for function in implementations}
    return Sweep(named, inputs, [{"n": 8}], on="cpu", repeat_s=0.01).run()


def tuned(block: int) -> Any:
    kernel = triton.autotune([triton.Config({"BLOCK": size}) for size in (block, 2 * block)], [])
    with TuningRun(TuneOptions(workers=0), on="cpu") as result:
        try:
            kernel(raise_at_64)[(1,)](torch.ones(8), torch.empty(8), 8, debug=True)
        except Exception:  # noqa: BLE001 - no configuration runs
            assert block >= 64
    return result


def verified(name: str) -> Any:
    return verify(f"{CANDIDATES}:{name}", cases=2, shrink=1, all_sizes_seconds=0, replay="off")


#: Results that pass and results that do not, with the number of failures.
RESULTS: dict[str, tuple[Callable[[], Any], int | None]] = {
    "interpret": (lambda: interpreted(64), None),
    "interpret-failing": (lambda: interpreted(65), 2),
    "sanitize": (lambda: sanitized(64), None),
    "sanitize-failing": (lambda: sanitized(65), 2),
    "watch": (lambda: watched(64, picture=True), None),
    "watch-failing": (lambda: watched(65, picture=True), 2),
    "watch-comparison": (lambda: watched(64, picture=True, compare="eager"), None),
    "profile": (profiled, None),
    "profile-analysis": (lambda: profiled().analyse(), None),
    "sweep": (lambda: swept(reference, copied), None),
    "sweep-failing": (lambda: swept(reference, shortened), 1),
    "prove": (lambda: prove(run, n=range(1, 1 << 20)), None),
    "prove-failing": (lambda: prove(run_past_the_end, n=range(1, 1 << 20)), 2),
    "tune": (lambda: tuned(16), None),
    "tune-failing": (lambda: tuned(64), 1),
    "tune-result": (lambda: tuned(16).results[0], None),
    "tune-result-failing": (lambda: tuned(64).results[0], 2),
    "verify": (lambda: verified("right"), None),
    "verify-failing": (lambda: verified("keeps_dimension"), 1),
}
#: The default test run makes one verification only, because each starts several processes.
each_result = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "verify" else ()) for name in RESULTS],
)


def formats_of_option(option: Any) -> set[str]:
    """Return the values that a `--format` option of the command line accepts."""
    (values, *_) = typing.get_args(option)
    literals = [values, *typing.get_args(values)]
    named = {value for literal in literals for value in typing.get_args(literal)}
    return {value for value in named if isinstance(value, str)}


#: The formats for the result of a run that each command offers, and that its function also has.
FORMATS = {
    "interpret": {"text", "json"},  # the page is that of `watch(picture=True)`
    "watch": formats_of_option(interpret_command.FormatOption),
    "sanitize": formats_of_option(sanitize_command.FindingsFormatOption),
    "profile": formats_of_option(profile_options.ProfileFormatOption),
    "sweep": formats_of_option(sweep_command.SweepFormatOption),
    "prove": formats_of_option(prove_command.FormatOption),
    # The formats that are left out are those of `tune export` and `tune rules`.
    "tune": formats_of_option(tune_options.TuneFormatOption)
    - {"t4", "vllm", "sglang", "flaggems", "triton", "python"},
    "verify": formats_of_option(verify_command.VerdictFormatOption),
}


def check_format(form: str, text: str) -> None:
    """Check that a report is not empty and has the form of its format."""
    assert text.strip()
    if form == "json":
        assert json.loads(text)["schema"].startswith("ttools.")
    elif form == "html":
        assert "</html>" in text
    elif form == "sarif":
        assert json.loads(text)["version"] == "2.1.0"
    elif form == "junit":
        assert ElementTree.fromstring(text).tag == "testsuites"
    elif form == "csv":
        header, *rows = text.splitlines()
        assert header.count(",") > 1
        assert rows
    elif form == "chrome":
        assert json.loads(text)["traceEvents"]
    elif form == "lock":
        assert "ttools" in text


@cache
def made(name: str) -> Any:
    return RESULTS[name][0]()


@pytest.mark.timeout(600)  # verifications start several processes
@each_result
def test_every_result_has_a_verdict(name: str) -> None:
    result, failing = made(name), RESULTS[name][1]
    assert isinstance(result, Result)
    assert (result.passed, len(result.failures)) == (failing is None, failing or 0)
    if failing is None:
        result.raise_for_failures()
        return
    with pytest.raises(FailuresError) as raised:
        result.raise_for_failures()
    assert raised.value.failures == tuple(result.failures)
    assert str(raised.value).startswith(result.to("text")[:40])
    assert isinstance(raised.value, FindingsError) == name.startswith(("sanitize", "prove"))
    if isinstance(raised.value, FindingsError):
        assert raised.value.findings == raised.value.failures


@pytest.mark.timeout(600)  # verifications start several processes
@each_result
def test_every_result_is_written_in_formats_and_displayed(name: str) -> None:
    result = made(name)
    for form in FORMATS[name.partition("-")[0]] | {"markdown"}:
        check_format(form, result.to(form))
    with pytest.raises(UsageError, match=r"there is no format `pdf`; choose from .*json"):
        result.to("pdf")
    bundle = result._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].strip()
    assert bundle["text/html"] == result._repr_html_()


def test_an_undecided_result_has_not_passed() -> None:
    unproved = prove(lambda n: run(n if torch.rand(1) < 2 else 1), n=range(1, 9))
    assert (unproved.outcome, unproved.passed, unproved.failures) == ("unknown", False, ())
    assert unproved.verdict == "not proved"  # the word of earlier releases
    with pytest.raises(FailuresError, match="not proved"):
        unproved.raise_for_failures()
    few = Sweep({"one": reference}, inputs, [{"n": 8}], on="cpu")
    assert not few.passed
    with pytest.raises(FailuresError, match="0 of 1 shapes"):
        few.raise_for_failures()


@pytest.mark.parametrize("name", ["prove", "prove-failing"])
def test_outcomes_of_proofs_are_those_of_all_commands(name: str) -> None:
    failing = RESULTS[name][1]
    result = made(name)
    assert result.outcome == ("failed" if failing else "passed")
    assert result.verdict == ("fails" if failing else "proved")
    assert json.loads(result.to("json"))["outcome"] == result.outcome


def _is_copy(name: str) -> bool:
    return name == "copy"


def _nothing(name: str) -> bool:
    return False


@pytest.mark.parametrize(("only", "launches"), [(_is_copy, 1), (_nothing, 0), (["copy"], 1)])
def test_kernels_are_selected_by_names_or_a_predicate(only: Any, launches: int) -> None:
    with interpret():
        with profile(on="cpu", only=only) as prof:
            run(64)
        with sanitize(only=only) as checked:
            run(64)
        with watch(["offs"], only=only) as seen:
            run(64)
    assert prof.analyse().launches == launches
    assert len(checked.launches) == launches
    assert len(seen.stats) == launches


@pytest.mark.parametrize(("only", "tunings"), [(_is_copy, 0), (["raise_at_64"], 1), (None, 1)])
def test_tuned_kernels_are_selected_by_names_or_a_predicate(only: Any, tunings: int) -> None:
    kernel = triton.autotune([triton.Config({"BLOCK": size}) for size in (16, 32)], [])
    with interpret(), TuningRun(TuneOptions(workers=0), on="cpu", only=only) as result:
        kernel(raise_at_64)[(1,)](torch.ones(8), torch.empty(8), 8, debug=True)
    assert len(result.results) == tunings


@triton.jit
def endless(x_ptr, step):
    i = step
    while i >= 0:
        tl.atomic_add(x_ptr, 1)
        i = (i + step) % 8


def test_watched_launches_have_a_time_limit() -> None:
    with watch(timeout=0.3), pytest.raises(KernelError) as raised:
        endless[(1,)](torch.zeros(1, dtype=torch.int32), 1)
    assert raised.value.kind == "timeout"


@pytest.mark.parametrize("name", ["sanitize-failing", "prove-failing"])
def test_former_names_warn(name: str) -> None:
    with pytest.warns(DeprecationWarning, match="raise_for_failures"), pytest.raises(FindingsError):
        made(name).raise_for_findings()


MEMBERS = ("interpreter", "sanitizer", "prove", "watch", "profiler", "tuner", "verifier")
PUBLIC = [f"{member}.{name}" for member in MEMBERS for name in public_names(member)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_name_their_parameters(name: str) -> None:
    """Sizes are the only keywords whose names the caller chooses."""
    member, _, own = name.partition(".")
    public = getattr(import_module(f"ttools.{member}"), own)
    if not callable(public):
        return
    for parameter in inspect.signature(public).parameters.values():
        chosen_by_caller = (name, parameter.name) == ("prove.prove", "sizes")
        assert parameter.kind is not parameter.VAR_KEYWORD or chosen_by_caller, parameter.name


def test_verify_takes_every_option_with_its_default() -> None:
    parameters = inspect.signature(verify).parameters
    hints, option_hints = typing.get_type_hints(verify), typing.get_type_hints(VerifyOptions)
    for option in fields(VerifyOptions):
        assert parameters[option.name].default == option.default
        assert hints[option.name] == option_hints[option.name]


def entered(context: Any) -> None:
    with context:
        pass


WRONG_ARGUMENTS: dict[str, Callable[[], Any]] = {
    "interpret-order": lambda: interpret(order="other"),  # type: ignore[arg-type]
    "interpret-only": lambda: interpret(only="kernel"),
    "interpret-threads": lambda: interpret(threads=0),
    "interpret-timeout": lambda: interpret(timeout=-1),
    "interpret-gpu": lambda: interpret(gpu="h1000"),
    "interpret-unknown": lambda: interpret(thread=1),  # type: ignore[call-arg]
    "device_map": lambda: entered(device_map("cuda=tpu")),
    "sanitize-checks": lambda: sanitize(checks="memchek"),
    "sanitize-only": lambda: sanitize(only="kernel"),
    "sanitize-timeout": lambda: sanitize(timeout=-1),
    "sanitize-threads": lambda: sanitize(threads=0),
    "sanitize-baseline": lambda: sanitize(baseline="no/such/file"),
    "sanitize-suppressions": lambda: sanitize(suppressions="no/such/file"),
    "sanitize-severity": lambda: sanitize().raise_for_failures("fatal"),  # type: ignore[arg-type]
    "sanitize-format": lambda: sanitize().to("pdf"),
    "watch-names": lambda: watch("acc"),
    "watch-programs": lambda: watch(programs="first"),
    "watch-format": lambda: watch().to("html"),
    "watch-only": lambda: watch(only="kernel"),
    "watch-limit": lambda: watch(limit=0),
    "watch-timeout": lambda: watch(timeout=-1),
    "watch-timeout-eager": lambda: watch(compare="eager", timeout=1),
    "watch-compare": lambda: watch(compare="no/such/file"),
    "open_trace": lambda: open_trace(Path("no/such/file")),
    "profile-on": lambda: profile(on="tpu"),  # type: ignore[arg-type]
    "profile-only": lambda: profile(only="kernel"),
    "profile-gpu": lambda: profile(gpu="h1000"),
    "profile-threads": lambda: profile(on="cpu", threads=0),
    "profile-timeout": lambda: profile(on="cpu", timeout=-1),
    "sweep-shapes": lambda: Sweep({"one": print}, dict, []),
    "sweep-on": lambda: Sweep({"one": print}, dict, [{}], on="tpu"),  # type: ignore[arg-type]
    "prove-none": lambda: prove(print),
    "prove-gaps": lambda: prove(print, n=range(1, 10, 2)),
    "prove-seconds": lambda: prove(print, seconds=-1, n=range(1, 10)),
    "prove-fail_on": lambda: prove(print, fail_on="fatal", n=range(1, 10)),  # type: ignore[arg-type]
    "tune-on": lambda: tune([], key=[], on="tpu"),  # type: ignore[arg-type]
    "tune-configs": lambda: tune([1], key=[]),
    "tune-unknown": lambda: tune([], key=[], warm=1),  # type: ignore[call-arg]
    "tune-options-effort": lambda: TuneOptions(effort="much"),  # type: ignore[arg-type]
    "tune-options-seconds": lambda: TuneOptions(seconds=-1),
    "tuning-run-locked": lambda: TuningRun(locked=True),
    "tuning-run-on": lambda: TuningRun(on="tpu"),  # type: ignore[arg-type]
    "tuning-run-only": lambda: TuningRun(only="kernel"),
    "verify-function": lambda: verify(lambda x: x),
    "verify-file": lambda: verify("no_such_file.py"),
    "verify-cases": lambda: verify("no_such_file.py", cases=0),
    "verify-unknown": lambda: verify("no_such_file.py", case=1),  # type: ignore[call-arg]
    "verify-options-seconds": lambda: VerifyOptions(seconds=-1),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_wrong_arguments_raise_a_value_error_or_a_type_error(name: str) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        WRONG_ARGUMENTS[name]()
    assert str(raised.value)
