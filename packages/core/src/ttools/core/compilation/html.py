"""The HTML page of inspections, which shows the source next to each stage, line by line.

Markup, styles and script are in `page/`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttools.core.compilation.annotation import StageLine, annotate
from ttools.core.compilation.inspection import (
    Inspection,
    comparison_rows,
    layout_lines,
    resource_lines,
    summary_sections,
    title,
)
from ttools.core.compilation.recompilations import Recompilation
from ttools.core.location import source_lines
from ttools.core.reports.highlighting import highlighted
from ttools.core.reports.page_template import render_page
from ttools.core.reports.report import counted

_PAGE = Path(__file__).parent / "page"
#: The stages that are shown first, if the compilation has one of them.
_FIRST = ("ptx", "amdgcn")


def write_page(
    inspections: Sequence[Inspection],
    stages: Sequence[str] = (),
    compared: tuple[Inspection, Inspection] | None = None,
    repeated: Sequence[Recompilation] = (),
) -> str:
    """Return an HTML document.

    Args:
        inspections: Inspected kernels, in the order of display.
        stages: Names of the stages to show; empty for all.
        compared: Two inspections whose figures are shown side by side.
        repeated: Parameters that cause recompilations of these kernels.
    """
    return render_page(
        _PAGE,
        gpu=", ".join(dict.fromkeys(inspection.gpu_name for inspection in inspections)),
        heading=_heading(inspections),
        comparison=comparison_rows(*compared) if compared else None,
        recompilations=[item.lines() for item in repeated],
        kernels=[
            _kernel(inspection, index, stages) for index, inspection in enumerate(inspections)
        ],
    )


def _heading(inspections: Sequence[Inspection]) -> str:
    """Return the title if there is one kernel, else the number of kernels and the GPUs."""
    titles = list(dict.fromkeys(map(title, inspections)))
    if len(titles) < 2:
        return "".join(titles)
    gpus = list(dict.fromkeys(inspection.gpu_name for inspection in inspections))
    return f"{counted(len(titles), 'compiled kernel')} for {', '.join(gpus)}"


def _kernel(inspection: Inspection, index: int, wanted: Sequence[str]) -> dict[str, Any]:
    stages = [s for s in inspection.compilation.stages if not wanted or s in wanted]
    lines = {stage: annotate(stage, inspection.compilation.text(stage)) for stage in stages}
    file, first, text = _source(inspection, lines)
    return {
        "title": title(inspection),
        "takes": "; ".join(resource_lines(inspection)),
        "id": f"kernel-{index}",
        "summary": [section for section in summary_sections(inspection) if section[1]],
        "layouts": "\n".join(layout_lines(inspection)),
        "source": [
            {"number": number, "html": line} for number, line in enumerate(highlighted(text), first)
        ],
        "stages": [
            {
                "id": f"kernel-{index}-{stage}",
                "name": stage,
                "first": stage in _FIRST,
                "lines": [
                    {"html": html, "at": _at(line, file)}
                    for html, line in zip(
                        highlighted([line.text for line in stage_lines], stage),
                        stage_lines,
                        strict=True,
                    )
                ],
            }
            for stage, stage_lines in lines.items()
        ],
    }


def _source(
    inspection: Inspection, stages: dict[str, list[StageLine]]
) -> tuple[str, int, list[str]]:
    """Return the path of the kernel's file, the number of the first line, and the lines."""
    function = inspection.source.function
    if function is not None:
        text, first = inspect.getsourcelines(function.fn)
        return (
            inspect.getsourcefile(function.fn) or "",
            first,
            [text_line.rstrip() for text_line in text],
        )
    files = [line.location.file for lines in stages.values() for line in lines if line.location]
    if not files:
        return "", 1, []
    file = max(set(files), key=files.count)
    return file, 1, [text_line.rstrip() for text_line in source_lines(file)]


def _at(line: StageLine, file: str) -> int | None:
    location = line.location
    return location.line if location is not None and location.file in ("", file) else None
