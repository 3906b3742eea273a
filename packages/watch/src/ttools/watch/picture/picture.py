"""The picture of a run: one page that needs no network, for a file or a notebook.

Owns its size. What it shows is `page_data`'s, its markup, style and script `page/`'s.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from pathlib import Path

from ttools.core.errors import UsageError, file_errors
from ttools.core.reports.page_template import page_template
from ttools.watch.picture.accesses import AccessBook
from ttools.watch.picture.page_data import page_data
from ttools.watch.trace.recording import Recording

_PAGE = Path(__file__).parent / "page"
#: Of the compressed data as text; markup and script come on top.
_LARGEST_DATA = 4_500_000
_MOST_VALUES = 4_000
_NOTEBOOK_HEIGHT = 720


class Picture:
    """What the programs of some launches held, loaded and stored.

    Args:
        recording: of their values.
        book: of their accesses.
        target: what was run, for the title.
    """

    def __init__(self, recording: Recording, book: AccessBook, target: str = "") -> None:
        self._recording = recording
        self._book = book
        self._target = target

    def html(self) -> str:
        """The page.

        Raises:
            UsageError: nothing was launched that could be drawn.
        """
        if not self._book.launches:
            raise UsageError("there is nothing to draw: no kernel was launched")
        launches = [self._recording.launches[index] for index in self._book.launches]
        kernels = dict.fromkeys(launch.kernel for launch in launches)
        return page_template(_PAGE).render(
            title=", ".join(kernels), target=self._target, data=self._data()
        )

    def _data(self) -> str:
        """Compressed JSON as base64, with as many values as fit."""
        most = _MOST_VALUES
        while True:
            data = page_data(self._recording, self._book, most)
            text = json.dumps(data, separators=(",", ":"), allow_nan=False)
            packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
            if len(packed) <= _LARGEST_DATA or most == 1:
                return packed
            most //= 2

    def save(self, path: str | Path) -> None:
        """Writes the page to a file.

        Raises:
            UsageError: it cannot be written, or there is nothing to draw.
        """
        text = self.html()
        with file_errors(f"write `{path}`"):
            Path(path).write_text(text, "utf-8")

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        page = html.escape(self.html(), quote=True)
        style = f"width:100%;height:{_NOTEBOOK_HEIGHT}px;border:1px solid #8884"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
