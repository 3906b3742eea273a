"""Environment, collection hooks and fixtures of all tests.

Every run uses new, empty caches. Triton and ttools read the locations of their caches on first use,
so this file sets the environment variables when it is imported, before any test module.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib.abc
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chromium import Chromium
from tests.exploration import register_profiles

_TESTS = Path(__file__).parent
_ROOT = _TESTS.parent
#: Files that take 5 seconds or more of processor time, slowest first.
_SLOWEST = (
    *("profiler/report/test_advice.py", "sanitizer/corpus/test_corpus.py"),
    *("prove/test_contracts.py", "prove/test_declared_integers.py"),
    *("cli/test_surroundings.py", "verifier/test_verify.py"),
    *("verifier/test_replay_cheats.py", "interpreter/backend/test_plugin.py"),
    *("prove/test_solver.py", "cli/test_folder_names.py", "verifier/test_cheating.py"),
    *("sanitizer/checks/test_synchronisation_products.py", "cli/interpret/test_interpret.py"),
    *("profiler/gpu/test_counting_processes.py", "prove/test_witness.py"),
    *("cli/profile/test_profile.py", "cli/test_record.py", "sanitizer/test_pytest_plugin.py"),
    *("cli/lsp/test_server.py", "prove/test_extent_tracking.py", "docs/test_pages.py"),
    *("cli/interpret/test_start.py", "interpreter/differential/test_branches.py"),
    *("sanitizer/checks/test_accuracy.py", "sanitizer/test_pytest_options.py"),
    *("cli/sanitize/test_sanitize.py", "verifier/test_value_log.py"),
    *("cli/sanitize/test_sanitize_ending.py", "prove/test_analysis.py"),
    *("sanitizer/test_pytest_progress.py", "cli/tune/test_tune.py"),
    *("interpreter/elementwise/test_every_type.py",),
    *("interpreter/native/test_compiler_process.py",),
    *("sanitizer/memory/test_pattern_like_values.py", "cli/profile/test_profile_sweep.py"),
    *("interpreter/differential/test_chains.py", "interpreter/records/test_time_limit.py"),
    *("cli/test_streams.py", "prove/test_memory.py", "interpreter/instruments/test_guards.py"),
    *("tools/test_fuzz_readers.py", "interpreter/backend/test_inductor.py"),
    *("examples/test_examples.py", "prove/test_relations.py"),
    *("interpreter/differential/memory/test_atomic_loads_and_stores.py",),
    *("sanitizer/reproducibility/test_groups.py", "cli/test_pages.py", "cli/test_script_end.py"),
    *("prove/test_text.py", "tuner/workers/test_worker_processes.py"),
    *("interpreter/differential/test_reductions.py", "interpreter/records/test_ttir_file.py"),
    *("cli/test_crashes.py", "cli/test_app.py", "profiler/gpu_time/test_projection.py"),
    *("profiler/access/test_access.py", "interpreter/differential/memory/test_lane_order.py"),
    *("tuner/measure/test_pointer_tables.py", "cli/test_doctor.py"),
    *("profiler/gpu/test_copies.py", "core/device_map/test_mapping.py"),
    *("interpreter/differential/programs/test_sorting_networks.py", "prove/test_script.py"),
    *("sanitizer/gpu/test_command.py", "tuner/search/test_large_space.py"),
    *("prove/test_carried.py", "workspace/test_public_api.py"),
)


def _folder_of_caches() -> Path:
    """Create the folder of the caches, in memory if 2 GiB are free and programs may run from there.

    Compiling a kernel creates and removes five folders, which is faster in memory.
    """
    memory = Path("/dev/shm")
    is_suitable = (
        memory.is_dir()
        and shutil.disk_usage(memory).free > 2 << 30
        and not os.statvfs(memory).f_flag & os.ST_NOEXEC
    )
    return Path(tempfile.mkdtemp(prefix="ttools-tests-", dir=memory if is_suitable else None))


_CACHES = _folder_of_caches()
atexit.register(shutil.rmtree, _CACHES, ignore_errors=True)
# Commands print their progress after ten seconds, which any command can take on a busy machine.
os.environ.setdefault("TTOOLS_PROGRESS", "off")
# Pages contain their date, so two runs that are compared would differ.
os.environ["SOURCE_DATE_EPOCH"] = "1767225600"
# An object that an earlier run has cached would hide a defect of the present compiler.
os.environ["TRITON_CACHE_DIR"] = str(_CACHES / "triton")
os.environ["TTOOLS_CACHE_DIR"] = str(_CACHES / "ttools")
# Variables that a developer has exported would change the results of tests.
for _name in ("TRITON_INTERPRET", "TRITON_DEBUG", "TTOOLS_BACKEND", "TTOOLS_THREADS"):
    os.environ.pop(_name, None)

# LLVM's level 1 compiles in half the time of level 2, and most tests do not depend on LLVM's
# optimisations. `tests/interpreter/differential` and the corpus of the sanitizer use level 2.
os.environ["TTOOLS_OPT"] = "1"

# A shell starts background jobs with SIGINT ignored, and the processes of tests inherit that.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

register_profiles()


class _TorchIsMissing(importlib.abc.MetaPathFinder):
    """Import hook that skips test modules that import torch, where torch is not installed.

    Some versions of Python have no build of torch. The hook affects imports by files of this
    repository only: Triton and other packages catch the ImportError themselves.
    """

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name.partition(".")[0] != "torch":
            return
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename and frame.f_back is not None:
            frame = frame.f_back
        if Path(frame.f_code.co_filename).is_relative_to(_ROOT):
            pytest.skip("torch is not installed", allow_module_level=True)


if importlib.util.find_spec("torch") is None:
    sys.meta_path.append(_TorchIsMissing())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-goldens`."""
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden files")


@functools.cache
def _gpu_present() -> bool:
    """Return True if torch finds a GPU; import torch only if a test needs a GPU."""
    import torch

    return torch.cuda.is_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first; otherwise one of them may run last while others idle."""
    ranks = {name: rank for rank, name in enumerate(_SLOWEST)}
    items.sort(key=lambda item: ranks.get(str(item.path.relative_to(_TESTS)), len(ranks)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute files with a scheduler under which the run also ends if a process dies."""
    from tests.sharing import FileSharing

    return FileSharing(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Exclude imported modules and collected tests from garbage collection, to speed it up."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Undo the exclusion, so that Python frees the objects at exit, which C++ bindings expect."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests whose marker names something that this machine lacks."""
    if item.get_closest_marker("gpu") and not _gpu_present():
        pytest.skip("needs an NVIDIA GPU")
    if item.get_closest_marker("tutorials") and not os.environ.get("TTOOLS_TUTORIALS"):
        pytest.skip("TTOOLS_TUTORIALS does not name the folder of Triton's tutorial files")


@pytest.fixture(scope="session")
def _kept_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def same_folder(_kept_folder: Path) -> Path:
    """Return an empty folder whose path is the same for all tests.

    Compiled code contains the path of its source, so a kernel in a script that many tests write is
    compiled once if the script is in this folder, but once per test if it is in `tmp_path`.
    """
    for entry in _kept_folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return _kept_folder


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Return a headless browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        if os.environ.get("TTOOLS_REQUIRE_CHROMIUM") == "1":
            pytest.fail("TTOOLS_REQUIRE_CHROMIUM is set, but chromium is not installed")
        pytest.skip("chromium is not installed")
    chromium = Chromium(browser)
    yield chromium
    chromium.close()


@pytest.fixture(scope="session")
def dump_dom(chromium: Chromium) -> Callable[[Path], str]:
    """Return a function that opens a page in Chromium and returns its HTML after scripts ran."""
    return chromium.dump_dom
