"""A text for an issue: of a launch that the compiler or the hardware gets wrong."""

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
    """The text, in Markdown; the inputs are added by whoever knows them.

    Args:
        problem: what is wrong on the GPU.
        versions: of software, by name.
        kernels: that were launched.
        times: how often it was wrong, and of how many.
        variants: what came of other warps and stages.
        located: what storing the kernels' values has shown.
    """
    named = ", ".join(f"`{kernel}`" for kernel in kernels) or "A kernel"
    lines = [
        f"{named}: wrong result on {gpu}, right with the compiler's TTIR on a CPU",
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
