"""Chromium, for the tests of pages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def dump_dom(tmp_path: Path) -> Callable[[Path], str]:
    """Opens a page in Chromium and returns the document that its scripts leave."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        if os.environ.get("TTOOLS_REQUIRE_CHROMIUM") == "1":
            pytest.fail("TTOOLS_REQUIRE_CHROMIUM is set, but chromium is not installed")
        pytest.skip("chromium is not installed")

    def dump(page: Path) -> str:
        done = subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-dev-shm-usage",
                "--no-first-run",
                f"--user-data-dir={tmp_path / 'chromium'}",
                "--virtual-time-budget=5000",
                "--dump-dom",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return dump
