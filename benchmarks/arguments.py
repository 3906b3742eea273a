"""Parsing of the benchmarks' options; invalid values raise `typer.BadParameter`."""

from __future__ import annotations

import os
from typing import Any

import typer
from sides import SIDES
from workloads.rows import chosen


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def read_threads(text: str) -> list[int]:
    """Parse a list of thread counts and remove duplicates; `all` stands for one thread per CPU."""
    everything = len(os.sched_getaffinity(0))
    words = _words(text)
    if not words or any(w != "all" and (not w.isdecimal() or int(w) < 1) for w in words):
        raise typer.BadParameter(f"{text}: give numbers of threads, or `all`, separated by commas")
    return sorted({everything if word == "all" else int(word) for word in words})


def read_sides(text: str) -> list[str]:
    """Return the names of sides without duplicates."""
    words = _words(text)
    if not words or any(word not in SIDES for word in words):
        raise typer.BadParameter(f"{text}: sides are {', '.join(SIDES)}")
    return list(dict.fromkeys(words))


def read_workloads(only: str) -> list[Any]:
    """Return the workloads whose names contain one of the comma-separated words in `only`."""
    workloads = chosen(only)
    if not workloads:
        names = ", ".join(w.name for w in chosen(None))
        raise typer.BadParameter(f"no workload has a name that contains {only}; names are {names}")
    return workloads
