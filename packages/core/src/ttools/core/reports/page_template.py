"""Renders self-contained HTML pages from jinja templates with their style and script.

All pages extend `style/base.html.jinja`. Each begins with a line that says where it comes from: the
date, the command line, the versions of ttools, Triton and torch, and the GPU.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from ttools.core.process.command_line import shown_command_line
from ttools.core.reports.highlighting import STYLE

#: The folder of `base.html.jinja` and `base.css`, which all pages extend and include.
_STYLE = Path(__file__).parent / "style"
_DISTRIBUTIONS = {"ttools": "ttools-core", "Triton": "triton", "torch": "torch"}


def render_page(folder: Path, *, gpu: str = "", **content: object) -> str:
    """Return an HTML document.

    Args:
        folder: Contains `page.html.jinja`, which extends `base.html.jinja`, a `page.css` and any
            other files that the template includes.
        gpu: The GPU that the page is about, if there is one.
        content: Values of the template's variables.
    """
    return _template(folder).render(origin=_origin(gpu), highlighting=STYLE, **content)


@lru_cache(maxsize=8)
def _template(folder: Path) -> Template:
    environment = Environment(
        loader=FileSystemLoader([folder, _STYLE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja")


def _origin(gpu: str) -> dict[str, str]:
    """Return date, command, versions and GPU of a page; those that are unknown are missing."""
    facts = {
        "date": f"{_now():%Y-%m-%d %H:%M} UTC",
        "command": shown_command_line(),
        "versions": ", ".join(filter(None, map(_version, _DISTRIBUTIONS))),
        "gpu": gpu,
    }
    return {name: text for name, text in facts.items() if text}


def _now() -> datetime:
    """Return the time, or that of `SOURCE_DATE_EPOCH`, which makes pages reproducible."""
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
