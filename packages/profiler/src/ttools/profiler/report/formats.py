"""The formats of an analysed profile."""

from __future__ import annotations

import json

from ttools.core.json_document import json_text
from ttools.core.reports.csv import csv_text
from ttools.core.reports.result import Formats, formats_of
from ttools.profiler.report.analysis import ProfileAnalysis
from ttools.profiler.report.chrome import chrome_trace
from ttools.profiler.report.html import write_page
from ttools.profiler.report.json import as_data


@formats_of(ProfileAnalysis)
def formats_of_profile(profiled: ProfileAnalysis) -> Formats:
    """Return the formats beyond text and Markdown, with a function for each of them."""
    return {
        "json": lambda: json_text(as_data(profiled)),
        "csv": lambda: csv_text(profiled.frame),
        "html": lambda: write_page(profiled),
        "chrome": lambda: json.dumps(chrome_trace(profiled.samples)) + "\n",
    }
