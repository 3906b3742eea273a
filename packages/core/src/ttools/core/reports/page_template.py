"""Renders self-contained HTML pages from jinja templates with their style and script.

All pages extend `style/base.html.jinja`. Each begins with a line about its origin: the date, the
command line, the versions of ttools, Triton and torch, and the GPU. Reports continue with a
summary: the conclusion as a sentence, the reasons with evidence, and what to do.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from ttools.core.process.command_line import shown_command_line
from ttools.core.reports.highlighting import STYLE

#: The folder of `base.html.jinja` and `base.css`, which all pages extend and include.
_STYLE = Path(__file__).parent / "style"
_DISTRIBUTIONS = {"ttools": "ttools-core", "Triton": "triton", "torch": "torch"}


@dataclass(frozen=True, kw_only=True)
class Point:
    """A reason for the conclusion of a page.

    Attributes:
        text: The reason as a sentence; text between backticks is shown as code.
        place: Where the reason applies, such as `kernel.py:12:5`.
        evidence: Lines that prove the reason: source, values, figures.
        action: What to do about it.
        link: Identifier of the part of the page that has the details.
    """

    text: str
    place: str = ""
    evidence: str = ""
    action: str = ""
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class PageSummary:
    """The first part of a page: its conclusion, and the reasons.

    Attributes:
        conclusion: The result in one sentence; text between backticks is shown as code.
        verdict: The verdict, which determines the colour; empty for pages without a verdict.
        about: The subject of the page, and how much was examined.
        points: The reasons, the most important first.
        more: A note on what the summary leaves out.
    """

    conclusion: str
    verdict: Literal["passed", "failed", "unknown", ""] = ""
    about: str = ""
    points: tuple[Point, ...] = ()
    more: str = ""


def render_page(
    folder: Path, *, gpu: str = "", summary: PageSummary | None = None, **content: object
) -> str:
    """Return an HTML document.

    Args:
        folder: Folder with `page.html.jinja`, which extends `base.html.jinja`, a `page.css` and any
            other files that the template includes.
        gpu: The GPU that the page is about, if there is one.
        summary: The first part of the page; None for a page with its own heading.
        content: Values of the template's variables.
    """
    return _template(folder).render(
        origin=_origin(gpu), highlighting=STYLE, summary=summary, **content
    )


@lru_cache(maxsize=8)
def _template(folder: Path) -> Template:
    environment = Environment(
        loader=FileSystemLoader([folder, _STYLE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    return environment.get_template("page.html.jinja")


def _prose(text: str) -> Markup:
    """Return text as HTML in which words between backticks are code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _origin(gpu: str) -> dict[str, str]:
    """Return the date, the command, the versions and the GPU of a page, omitting unknown ones."""
    facts = {
        "date": f"{_now():%Y-%m-%d %H:%M} UTC",
        "command": shown_command_line(),
        "versions": ", ".join(filter(None, map(_version, _DISTRIBUTIONS))),
        "gpu": gpu,
    }
    return {name: text for name, text in facts.items() if text}


def _now() -> datetime:
    """Return the current time, or that of `SOURCE_DATE_EPOCH`, which makes pages reproducible."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    if fixed.isdigit():
        return datetime.fromtimestamp(int(fixed), timezone.utc)
    return datetime.now(timezone.utc)


def _version(name: str) -> str:
    try:
        return f"{name} {version(_DISTRIBUTIONS[name])}"
    except PackageNotFoundError:
        return ""


def script_json(data: object) -> Markup:
    """Return JSON for a script element, escaped so that it cannot end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
