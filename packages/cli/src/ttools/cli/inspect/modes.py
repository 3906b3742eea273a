"""The reports of `ttools inspect` that replace the usual one, and the options that they take."""

from __future__ import annotations

from collections.abc import Mapping

from ttools.core.errors import UsageError

#: Options that select another report, and the options that are only for this report.
_MODES = {
    "--specialisations": ("--warmup-file",),
    "--all-configs": ("--triton", "--fail-on"),
    "--reduce": ("--timeout", "--compile-timeout"),
}
_STAGES_AND_FILES = ("--stage", "--against", "--output-dir", "--lock", "--check")
#: Options of the usual report that another report does not take.
_REFUSED = {
    "--specialisations": ("--signature", "--num-warps", "--num-stages", *_STAGES_AND_FILES),
    "--all-configs": _STAGES_AND_FILES,
    "--reduce": _STAGES_AND_FILES,
}
_FORMATS = {
    "--specialisations": ("text", "markdown", "json"),
    "--reduce": ("text", "json"),
}
_USUAL_FORMATS = ("text", "json", "html")


def selected_mode(values: Mapping[str, object], form: str) -> str | None:
    """Return the option that selects the report, or None for the usual report.

    Args:
        values: Values of the options by name. An option that was not used is None, False or [].
        form: Value of the option `--format`.

    Raises:
        UsageError: Two options select a report, or an option does not fit the report.
    """
    used = {name for name, value in values.items() if value or type(value) in (int, float)}
    if "--warmup-file" in used:
        used.add("--specialisations")
    modes = [mode for mode in _MODES if mode in used]
    if len(modes) > 1:
        raise UsageError(f"{modes[1]} cannot be combined with {modes[0]}")
    mode = modes[0] if modes else None
    for other, own in _MODES.items():
        for name in own:
            if name in used and other != mode:
                raise UsageError(f"{name} needs {other}")
    for name in _REFUSED.get(mode or "", ()):
        if name in used:
            raise UsageError(f"{name} cannot be combined with {mode}")
    formats = _FORMATS.get(mode or "", _USUAL_FORMATS)
    if form not in formats:
        names = f"{', '.join(formats[:-1])} and {formats[-1]}"
        report = f"with {mode}" if mode else "without --specialisations"
        raise UsageError(f"--format {form}: the formats {report} are {names}")
    return mode
