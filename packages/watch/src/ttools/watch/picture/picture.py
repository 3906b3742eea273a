"""The picture of a run: one self-contained HTML page for a file or a notebook.

`page_data` selects the content; markup, style and script are in `page/`.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

from ttools.core.errors import UsageError, file_errors
from ttools.core.reports.notebook import framed
from ttools.core.reports.page_template import render_page
from ttools.watch.picture.accesses import LaunchAccesses
from ttools.watch.picture.page_data import page_data
from ttools.watch.trace.recording import Recording

_PAGE = Path(__file__).parent / "page"
#: Maximum size of the encoded data, without markup and script.
_LARGEST_DATA = 4_500_000
_MOST_VALUES = 4_000
_NOTEBOOK_HEIGHT = 720


class Picture:
    """The values, loads and stores of the programs of some launches.

    Args:
        recording: Values of the launches.
        accesses: Loads and stores of the launches.
        target: The program's name, for the title.
    """

    def __init__(self, recording: Recording, accesses: LaunchAccesses, target: str = "") -> None:
        self._recording = recording
        self._accesses = accesses
        self._target = target

    def html(self) -> str:
        """Return the page.

        Raises:
            UsageError: No launch can be shown.
        """
        if not self._accesses.launches:
            raise UsageError("there is nothing to draw: no kernel was launched")
        launches = [self._recording.launches[index] for index in self._accesses.launches]
        kernels = dict.fromkeys(launch.kernel for launch in launches)
        return render_page(_PAGE, title=", ".join(kernels), target=self._target, data=self._data())

    def _data(self) -> str:
        """Return compressed JSON as base64, with as many values as fit."""
        most = _MOST_VALUES
        while True:
            data = page_data(self._recording, self._accesses, most)
            text = json.dumps(data, separators=(",", ":"), allow_nan=False)
            packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
            if len(packed) <= _LARGEST_DATA or most == 1:
                return packed
            most //= 2

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Raises:
            UsageError: The file cannot be written, or there is nothing to show.
        """
        text = self.html()
        with file_errors(f"write `{path}`"):
            Path(path).write_text(text, "utf-8")

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        return framed(self.html(), "ttools interpret", _NOTEBOOK_HEIGHT)
