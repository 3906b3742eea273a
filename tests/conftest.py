"""What all tests share: caches of their own, Hypothesis settings, and what `gpu` tests need.

Triton and ttools read the places of their caches when they are first used, so the environment is
set while this file is imported, before any test module is.
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
#: Files that take 15 seconds and more of a processor, the slowest first.
_SLOWEST = (
    *("sanitizer/corpus/test_corpus.py", "workspace/test_readme.py", "cli/tune/test_tune.py"),
    *("cli/sanitize/test_sanitize.py", "interpreter/instruments/test_guards.py"),
    *("examples/test_examples.py", "sanitizer/checks/test_synchronisation_products.py"),
    *("interpreter/differential/products/test_dot_precision.py", "cli/profile/test_profile.py"),
    *("cli/interpret/test_interpret.py", "interpreter/differential/test_arithmetic.py"),
    *("sanitizer/test_pytest_plugin.py", "interpreter/differential/memory/test_atomics.py"),
    *("interpreter/differential/test_reductions.py", "interpreter/backend/test_plugin.py"),
    *("interpreter/differential/memory/test_lane_order.py", "tuner/search/test_guided.py"),
    *("interpreter/differential/products/test_tensor_core_sums.py", "cli/inspect/test_inspect.py"),
    *("interpreter/differential/test_chains.py", "cli/test_bad_input.py"),
    *("interpreter/differential/test_lane_moves.py", "tuner/measure/test_pointees.py"),
    *("interpreter/elementwise/test_every_type.py", "tuner/rules/test_growth.py"),
)


def _folder_of_caches() -> Path:
    """A new one, in memory where there is plenty: each kernel makes and removes five folders."""
    memory = Path("/dev/shm")
    plenty = (
        memory.is_dir()
        and shutil.disk_usage(memory).free > 2 << 30
        and not os.statvfs(memory).f_flag & os.ST_NOEXEC
    )
    return Path(tempfile.mkdtemp(prefix="ttools-tests-", dir=memory if plenty else None))


_CACHES = _folder_of_caches()
atexit.register(shutil.rmtree, _CACHES, ignore_errors=True)
# On a busy machine any command may take the ten seconds after which it tells how far it is.
os.environ.setdefault("TTOOLS_PROGRESS", "off")
# A stale object of an earlier run would hide a defect of today's compiler.
os.environ["TRITON_CACHE_DIR"] = str(_CACHES / "triton")
os.environ["TTOOLS_CACHE_DIR"] = str(_CACHES / "ttools")
# What a developer has exported must not decide what the tests see.
for _name in ("TRITON_INTERPRET", "TRITON_DEBUG", "TTOOLS_BACKEND", "TTOOLS_THREADS"):
    os.environ.pop(_name, None)

# Half of LLVM's passes: they are no more what most tests are about than Python's are.
# `tests/interpreter/differential` and the sanitizer's corpus have all of them.
os.environ["TTOOLS_OPT"] = "1"

# A run in the background is started with SIGINT ignored, and so would be all that it starts.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

register_profiles()


class _TorchIsMissing(importlib.abc.MetaPathFinder):
    """Skips what needs torch where it is not installed, for Pythons that have no build of it.

    Only imports by this repository's own files: Triton and others do without torch if need be.
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
    """Adds the one flag that writes golden files anew."""
    parser.addoption("--update-goldens", action="store_true", help="write golden files anew")


@functools.cache
def _gpu_present() -> bool:
    """True when torch sees a GPU; torch is imported only if a test asks."""
    import torch

    return torch.cuda.is_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the slowest files first, so that no process is left alone with one at the end."""
    places = {name: place for place, name in enumerate(_SLOWEST)}
    items.sort(key=lambda item: places.get(str(item.path.relative_to(_TESTS)), len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Shares files among processes such that the run ends also when one of them dies."""
    from tests.sharing import FileSharing

    return FileSharing(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Spares the collector of garbage what lives to the end: torch, Triton, and all tests."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Lets Python take apart what was spared, as bindings in C++ expect."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests whose marker asks for what this machine lacks."""
    if item.get_closest_marker("gpu") and not _gpu_present():
        pytest.skip("needs an NVIDIA GPU")
    if item.get_closest_marker("tutorials") and not os.environ.get("TTOOLS_TUTORIALS"):
        pytest.skip("TTOOLS_TUTORIALS does not name the folder of Triton's tutorial files")


@pytest.fixture(scope="session")
def _kept_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def same_folder(_kept_folder: Path) -> Path:
    """A folder with the same path for all tests that take one, and empty.

    Compiled code names the file of its source. So a script that many tests write is compiled once
    here, and anew for each test in `tmp_path`.
    """
    for entry in _kept_folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return _kept_folder


@pytest.fixture(scope="session")
def dump_dom() -> Iterator[Callable[[Path], str]]:
    """Opens a page in Chromium and returns the document that its scripts leave."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        if os.environ.get("TTOOLS_REQUIRE_CHROMIUM") == "1":
            pytest.fail("TTOOLS_REQUIRE_CHROMIUM is set, but chromium is not installed")
        pytest.skip("chromium is not installed")
    chromium = Chromium(browser)
    yield chromium.dump_dom
    chromium.close()
