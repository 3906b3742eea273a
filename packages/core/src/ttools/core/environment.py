"""The checks of `ttools doctor`: versions, drivers, devices, caches and settings.

Each check examines one subject and returns what it found, with a remedy for problems.
`ttools doctor` must work on a broken installation, so an exception in a check becomes the result of
that check.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal

from ttools.core import configuration
from ttools.core.ownership import owner_of_class
from ttools.core.reports.notebook import Part, ShowsItself, Table
from ttools.core.reports.numbers import mebibytes
from ttools.core.settings import read_settings

Status = Literal["ok", "info", "warning", "error"]

_SUPPORTED_TRITON = ((3, 6), (4, 0))
_MEMBERS = (
    "core",
    "ir",
    *("interpreter", "watch", "sanitizer", "prove", "profiler", "tuner", "fuzz", "verifier", "cli"),
)
_VECTOR_FEATURES = (
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "asimd",
    "sve",
)
_DEV = Path("/dev")
_GPU_DEVICES = ("nvidia[0-9]*", "dxg", "kfd")  # Linux, WSL, ROCm
_COMMAND_TIMEOUT_S = 10


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of one check.

    Attributes:
        name: Subject of the check.
        status: Severity; `info` states a fact that is neither good nor bad.
        detail: The outcome in one line.
        help: The remedy, if there is one.
    """

    name: str
    status: Status
    detail: str
    help: str | None = None


Finding = tuple[Status, str] | tuple[Status, str, str]


class Examination(list[Result], ShowsItself):
    """The results of the checks, in order; a notebook displays them as a table."""

    def _shown(self) -> Iterator[Part]:
        rows = [(result.status, result.name, result.detail, result.help or "") for result in self]
        yield Table("", ("", "what", "found", "help"), rows)


def examine(checks: Sequence[tuple[str, Callable[[], Finding]]] | None = None) -> Examination:
    """Run the given checks, by default all of them, in order."""
    chosen = CHECKS if checks is None else checks
    return Examination(_run(name, check) for name, check in chosen)


def _run(name: str, check: Callable[[], Finding]) -> Result:
    try:
        status, detail, *rest = check()
    except Exception as error:  # noqa: BLE001 - a broken installation breaks in its own ways
        message = str(error).strip() or "no message"
        return Result(name=name, status="error", detail=f"{type(error).__name__}: {message}")
    return Result(name=name, status=status, detail=detail, help=rest[0] if rest else None)


def gpu_usable() -> bool:
    """Return whether torch could use a GPU here, without initialising a driver."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1", "NoDevFiles")
    devices = any(any(_DEV.glob(name)) for name in _GPU_DEVICES)
    return devices and not hidden and "+cpu" not in (installed_version("torch") or "")


def is_gpu_broken() -> bool:
    """Return whether a kernel has corrupted the CUDA context of this process."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # macOS has no such function
        return os.cpu_count() or 1


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None if it is not installed."""
    from importlib import metadata  # as slow as all other imports of this module together

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


# --- packages ---------------------------------------------------------------------------------


def _python() -> Finding:
    return "info", f"{platform.python_version()} at {sys.executable}, {platform.platform()}"


def _members() -> Finding:
    versions = {name: installed_version(f"ttools-{name}") for name in _MEMBERS}
    installed = {name: version for name, version in versions.items() if version}
    listed = ", ".join(f"{name} {version}" for name, version in installed.items())
    if len(set(installed.values())) > 1:
        return (
            "warning",
            listed,
            "install all ttools-* packages with the same version, in one command",
        )
    return "ok", listed or "running from sources that are not installed"


def _namespace() -> Finding:
    spec = PathFinder.find_spec("ttools")
    if spec is not None and spec.origin is not None:
        return "error", f"`import ttools` runs {spec.origin}", "remove or rename it"
    if installed_version("ttools") is not None:
        return (
            "warning",
            "a distribution called `ttools` is installed; it is unrelated to this tool",
            "pip uninstall ttools",
        )
    return "ok", "nothing else is called `ttools`"


def _hatchet() -> Finding:
    ours, other = installed_version("llnl-hatchet"), installed_version("hatchet")
    if other is not None:
        remedy = "pip uninstall hatchet, then pip install --force-reinstall llnl-hatchet"
        return "error", f"`hatchet` {other} is not the project that Proton's viewer needs", remedy
    if ours is None:
        return "info", "llnl-hatchet is not installed; only graph frames need it"
    return "ok", f"llnl-hatchet {ours}"


def _triton() -> Finding:
    triton = importlib.import_module("triton")
    version = str(triton.__version__)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    lowest, limit = _SUPPORTED_TRITON
    detail = f"{version} at {Path(triton.__file__ or '').parent}"
    if not lowest <= numbers < limit:
        return "warning", detail, "ttools supports triton >= 3.6, < 4"
    return "ok", detail


def _torch() -> Finding:
    torch = importlib.import_module("torch")
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
    return "ok", f"{torch.__version__} ({build}), {torch.get_num_threads()} threads"


def _llvmlite() -> Finding:
    binding = importlib.import_module("llvmlite.binding")
    version = ".".join(map(str, binding.llvm_version_info))
    return "ok", f"{installed_version('llvmlite')} with LLVM {version}"


def _numpy() -> Finding:
    numpy = importlib.import_module("numpy")
    importlib.import_module("ml_dtypes")
    return "ok", f"numpy {numpy.__version__}, ml_dtypes {installed_version('ml_dtypes')}"


# --- machine ----------------------------------------------------------------------------------


def _cpu() -> Finding:
    binding = importlib.import_module("llvmlite.binding")
    flags = _cpu_information("flags|Features").split()
    features = (
        " ".join(name for name in _VECTOR_FEATURES if name in flags) or "no known vector extensions"
    )
    target = os.environ.get("TTOOLS_CPU") or binding.get_host_cpu_name()
    return "info", f"{cpu_model()}, {os.cpu_count()} processors, LLVM {target}: {features}"


def cpu_model() -> str:
    """Return the model name of this machine's CPU."""
    return _cpu_information("model name") or platform.processor() or platform.machine()


def _cpu_information(name: str) -> str:
    """Return an entry of the first processor in `/proc/cpuinfo`, or an empty string."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    entry = re.search(rf"^(?:{name})\s*:\s*(.+)$", text, re.MULTILINE)
    return entry[1] if entry else ""


def _gpu() -> Finding:
    program = shutil.which("nvidia-smi")
    if program is None:
        return "info", "no nvidia-smi: kernels run on the CPU"
    query = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "warning", f"nvidia-smi did not answer within {_COMMAND_TIMEOUT_S} s"
    if done.returncode:
        return "info", f"nvidia-smi: {(done.stdout + done.stderr).strip().splitlines()[0]}"
    names = "; ".join(done.stdout.strip().splitlines())
    if not gpu_usable():
        return "warning", f"{names}; torch cannot use it (CPU build, or hidden by a variable)"
    return "ok", names


# --- Triton -----------------------------------------------------------------------------------


def _driver() -> Finding:
    backends = importlib.import_module("triton.backends").backends
    driver = importlib.import_module("triton.runtime").driver
    states = ", ".join(f"{name} {_activity(backend)}" for name, backend in backends.items())
    if "cpu" not in backends:
        remedy = (
            "unset TRITON_BACKENDS_IN_TREE"
            if os.environ.get("TRITON_BACKENDS_IN_TREE") == "1"
            else "reinstall ttools-interpreter: its triton.backends entry point was not found"
        )
        return "error", f"the plugin of ttools is not among Triton's backends: {states}", remedy
    try:
        active = driver.active
    except RuntimeError as error:
        remedy = "unset TTOOLS_BACKEND and TRITON_DEFAULT_BACKEND to run kernels on the CPU"
        return "error", f"{error} {_driver_reason()}{states}", remedy
    target = active.get_current_target()
    owner = owner_of_class(type(active))
    whose = owner if owner == "ttools" else type(active).__module__
    reason = _driver_reason()
    return "ok", f"{type(active).__name__} of {whose} for {target.backend}; {reason}{states}"


def _activity(backend: Any) -> str:
    try:
        return "active" if backend.driver.is_active() else "inactive"
    except Exception as error:  # noqa: BLE001 - third-party drivers may raise anything
        return f"fails ({type(error).__name__})"


def _driver_reason() -> str:
    values = {
        name: configuration.read(name) for name in ("TTOOLS_BACKEND", "TRITON_DEFAULT_BACKEND")
    }
    return "".join(f"{name}={value}; " for name, value in values.items() if value)


def _proton() -> Finding:
    importlib.import_module("triton.profiler")
    if not gpu_usable():
        return "info", "triton.profiler can be imported; it profiles only on a GPU"
    return "ok", "triton.profiler can be imported"


# --- state ------------------------------------------------------------------------------------


def _cache() -> Finding:
    if (configuration.read("TTOOLS_CACHE") or "").lower() in ("0", "off", "no", "false"):
        return "info", "switched off by TTOOLS_CACHE"
    return _directory(configuration.cache_directory())


def _triton_cache() -> Finding:
    chosen = os.environ.get("TRITON_CACHE_DIR")
    home = Path(os.environ.get("TRITON_HOME", Path.home()))
    return _directory(Path(chosen) if chosen else home / ".triton" / "cache")


def _directory(path: Path) -> Finding:
    if not path.exists():
        return "info", f"{path} does not exist yet"
    if path.stat().st_uid != os.getuid():
        return (
            "warning",
            f"{path} belongs to another user",
            "set TTOOLS_CACHE_DIR to a folder that you own",
        )
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    detail = f"{path}: {len(sizes):,} files, {mebibytes(sum(sizes))}"
    if not os.access(path, os.W_OK):
        return "warning", f"{detail}, not writable", "kernels are compiled again in each process"
    return "ok", detail


def _variables() -> Finding:
    present = configuration.relevant_environment()
    if not present:
        return "info", "no TTOOLS_* or TRITON_* variable is set"
    unknown = [name for name in present if configuration.is_unknown(name)]
    listed = "; ".join(
        f"{name}={value}" + (f" ({text})" if (text := configuration.meaning(name)) else "")
        for name, value in present.items()
    )
    if unknown:
        return "warning", listed, f"ttools does not use {', '.join(unknown)}; check the spelling"
    if present.get("TRITON_INTERPRET", "0") not in ("", "0"):
        return "warning", listed, "unset TRITON_INTERPRET: kernels run in Triton's interpreter"
    return "info", listed


def _settings() -> Finding:
    settings = read_settings()
    if settings is None:
        return "info", "no pyproject.toml with [tool.ttools] in this folder or a parent folder"
    listed = [
        f"{name}={value}"
        + ("" if os.environ.get(name) == value else f" (the environment has {os.environ[name]})")
        for name, value in settings.variables.items()
        if name in os.environ
    ]
    listed += [f"{name} {dict(table)}" for name, table in settings.commands.items()]
    return "info", f"{settings.file}: " + ("; ".join(listed) or "nothing is set")


CHECKS: tuple[tuple[str, Callable[[], Finding]], ...] = (
    ("python", _python),
    ("ttools", _members),
    ("ttools namespace", _namespace),
    ("triton", _triton),
    ("torch", _torch),
    ("llvmlite", _llvmlite),
    ("numpy", _numpy),
    ("cpu", _cpu),
    ("gpu", _gpu),
    ("triton driver", _driver),
    ("proton", _proton),
    ("proton viewer", _hatchet),
    ("ttools cache", _cache),
    ("triton cache", _triton_cache),
    ("environment", _variables),
    ("settings", _settings),
)
