"""Notes on tensors that are passed to kernels which never read or write them.

There are three cases. The source of the kernel does not use the parameter at all, as when a scale
was forgotten. The kernel uses the address of the tensor as a number. Or the kernel uses the
parameter only in paths that its constants exclude. The last case is usually intended: a kernel with
`HAS_BIAS=False` receives any tensor for the bias. The last case is reported only if a constant that
is True excludes the use, if the tensor has contents that a placeholder would not have, and if no
other launch of the run uses the parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation, source_lines
from ttools.core.ownership import is_triton_file
from ttools.core.syntax_trees import functions_around, read_names
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.interpreter.run.variants import Variants
from ttools.sanitizer.analysis.unread_pointers import unread_pointers
from ttools.sanitizer.checks.memcheck import Memcheck
from ttools.sanitizer.hints.constants import constant_names
from ttools.sanitizer.hints.excluded_uses import conditions, excluding_constants
from ttools.sanitizer.launch.checked import CheckedLaunch

_KIND = "unread_tensor"
#: Maximum number of launches of a kernel whose tensors are examined.
_MOST_EXAMINED = 16
#: Number of elements that are examined along each axis.
_EXAMINED = 16
#: Values of placeholder tensors, which are passed where no tensor is needed.
_PLACEHOLDERS = (0, 1, -1)
_HELP = "use it, or remove the parameter"
_HELP_EXCLUDED = "use it in this path, too, or pass None if the path does not need it"
_HELP_NUMBER = "load the value with tl.load"

#: Position of a kernel in the source, and the name of one of its parameters.
_Parameter: TypeAlias = "tuple[Position, str]"


@dataclass
class _Excluded:
    """The parameters of a kernel whose uses its constants exclude.

    Attributes:
        texts: The constants, as text, by index of the parameter.
        launches: Number of launches that were examined.
    """

    texts: dict[int, str]
    launches: int = 0


class UnreadTensors:
    """Collects the tensors of a run that no kernel reads or writes.

    Args:
        report: Reports a finding at the end of the run.
    """

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self._kernels: WeakKeyDictionary[Variants, _Excluded] = WeakKeyDictionary()
        self._used: set[_Parameter] = set()
        self._candidates: dict[_Parameter, Finding] = {}

    def findings(self, checked: CheckedLaunch) -> list[Finding]:
        """Return the findings of a launch; none if its kernel was launched before."""
        variants = checked.launch.kernel.variants
        findings: list[Finding] = []
        excluded = self._kernels.get(variants)
        if excluded is None:
            findings, excluded = self._of_kernel(checked)
            self._kernels[variants] = excluded
        if excluded.texts:
            self._examine(checked, excluded)
        return findings

    def close(self) -> None:
        """Report the tensors that no launch of the run has used."""
        for parameter, finding in self._candidates.items():
            if parameter not in self._used:
                self._report(finding)
        self._candidates.clear()

    def _of_kernel(self, checked: CheckedLaunch) -> tuple[list[Finding], _Excluded]:
        """Return the findings that hold for all launches of a kernel, and excluded parameters."""
        kernel, names = checked.kernel, checked.launch.kernel.plan.names
        location = kernel.module.kernel.location
        position = position_of(location)
        if checked.launch.kernel.function is None or location is None or position is None:
            return [], _Excluded({})
        unread = kernel.fact(unread_pointers)
        self._used |= {(position, name) for n, name in enumerate(names) if n not in unread}
        around = functions_around("".join(source_lines(location.file)), location.line)
        if not unread or not around or is_triton_file(location.file):
            return [], _Excluded({})
        definition = around[-1]
        parameters = {a.arg for a in (*definition.args.posonlyargs, *definition.args.args)}
        used = read_names(definition)
        findings: list[Finding] = []
        texts: dict[int, str] = {}
        for index, number in unread.items():
            name = names[index]
            if name not in parameters or name.startswith("_"):
                continue  # for example, it is a part of a tuple or of a descriptor
            if number is not None:
                message = (
                    f"the kernel uses the address of `{name}` as a number, and neither reads nor "
                    "writes the tensor"
                )
                findings.append(_finding(checked, index, message, number, _HELP_NUMBER))
            elif name not in used:
                message = (
                    f"a tensor is passed for `{name}`, and the kernel neither reads nor writes it"
                )
                findings.append(_finding(checked, index, message, None, _HELP))
            else:
                constants = excluding_constants(
                    definition.body, name, constant_names(checked.launch)
                )
                if constants and all(value is True for value in constants.values()):
                    texts[index] = " and ".join(conditions(constants))
        return findings, _Excluded(texts)

    def _examine(self, checked: CheckedLaunch, excluded: _Excluded) -> None:
        """Add the parameters for which a launch receives a tensor that is not a placeholder."""
        if excluded.launches == _MOST_EXAMINED:
            return
        excluded.launches += 1
        position = position_of(checked.kernel.module.kernel.location)
        assert position is not None
        for index, text in excluded.texts.items():
            parameter = position, checked.launch.kernel.plan.names[index]
            if parameter not in self._candidates and _is_meant(checked, index):
                message = (
                    f"a tensor is passed for `{parameter[1]}`, and no launch of the run reads or "
                    f"writes it: {text} excludes its use"
                )
                self._candidates[parameter] = _finding(
                    checked, index, message, None, _HELP_EXCLUDED
                )


def _is_meant(checked: CheckedLaunch, index: int) -> bool:
    """Return whether a tensor seems to be passed for its contents, not as a placeholder."""
    tensor, regions = checked.launch.arguments[index], checked.regions
    region = regions[index]
    if not hasattr(tensor, "untyped_storage") or not tensor.numel():
        return False
    others = (other.storage for n, other in enumerate(regions) if n != index)
    unwritten = checked.memory.unwritten_bytes(region.storage[0])
    if region.storage in others or (unwritten is not None and unwritten.any()):
        return False
    try:
        some = tensor.detach()[tuple(slice(_EXAMINED) for _ in tensor.shape)].double()
    except (RuntimeError, TypeError):  # a type without conversion
        return False
    return not any(bool((some == value).all()) for value in _PLACEHOLDERS)


def _finding(
    checked: CheckedLaunch,
    index: int,
    message: str,
    location: SourceLocation | None,
    help_line: str,
) -> Finding:
    kernel: Any = checked.kernel.module.kernel
    if location is None:
        location = kernel.regions[0].entry.arguments[index].location or kernel.location
    return Memcheck(checked).finding(
        _KIND,
        message,
        location=location,
        argument=checked.spec.argument(index),
        help=help_line,
        count=0,
    )
