"""Writes the text of an issue about a launch whose result on a GPU is wrong."""

from __future__ import annotations

_CLEAN = (
    "The same TTIR, run program by program on a CPU, gives the reference's result. A race detector "
    "and a check for uninitialised memory find nothing there."
)


def issue_text(
    *,
    problem: str,
    gpu: str,
    versions: dict[str, str],
    kernels: list[str],
    times: tuple[int, int],
    variants: dict[str, str],
    located: str,
) -> str:
    """Return the Markdown text of the issue without the inputs, which the caller adds.

    Args:
        problem: Description of the wrong result.
        gpu: Name of the GPU.
        versions: Versions of software by name.
        kernels: Names of the kernels that were launched.
        times: Number of runs with a wrong result, and total number of runs.
        variants: Outcomes with different numbers of warps and stages.
        located: Description of the first value that differs from the engine's value.
    """
    named = ", ".join(f"`{kernel}`" for kernel in kernels) or "A kernel"
    lines = [
        f"{named}: wrong result on {gpu}, correct with the compiler's TTIR on a CPU",
        "",
        f"Wrong {times[0]} of {times[1]} times: {problem}",
        "",
        _CLEAN,
        "",
        "| as launched, but with | result |",
        "|---|---|",
        *(f"| {name} | {outcome.replace('|', '/')} |" for name, outcome in variants.items()),
        "",
        f"{located[0].upper()}{located[1:]}.",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]
    return "\n".join(lines) + "\n"
