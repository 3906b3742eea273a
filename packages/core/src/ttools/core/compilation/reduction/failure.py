"""A failed compilation as data: the stage and the pass that failed, and the normalised message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from ttools.core.compilation.compile_errors import explanation, is_compilation_error
from ttools.core.ownership import owner_of_frame

FRONT_END = "front end"
#: Descriptions of the stages, by the name of the stage's result.
STAGE_TEXTS = {
    FRONT_END: "Triton's front end",
    "ttir": "the passes on TTIR",
    "ttgir": "the passes on TTGIR",
    "llir": "the conversion to LLVM IR",
    "ptx": "LLVM's generation of PTX",
    "cubin": "NVIDIA's assembler ptxas",
    "amdgcn": "LLVM's generation of AMD assembly",
    "hsaco": "AMD's linker",
}
_LONGEST_MESSAGE = 1500


@dataclass(frozen=True, kw_only=True)
class CompileFailure:
    """The failure of a compilation.

    Attributes:
        kind: How the compilation failed: it raised an exception, its process ended, it exceeded the
            time limit, or the kernel needs more resources than the GPU has.
        stage: Name of the stage that failed.
        compiler_pass: Name of the MLIR pass that failed; empty if unknown.
        error: Class of the exception, description of the process's end, or name of the launch rule.
        origin: Function of Triton that raised the exception; empty if there is none.
        message: Message of the compiler.
        remedy: Explanation by ttools, see `compile_errors`; may be empty.
    """

    kind: Literal["error", "crash", "timeout", "resources"]
    stage: str
    compiler_pass: str = ""
    error: str = ""
    origin: str = ""
    message: str = ""
    remedy: str = ""

    def is_like(self, other: CompileFailure) -> bool:
        """Return whether both compilations fail in the same way.

        The kind, the stage, the pass, the error class and the function that raised the error must
        be equal. The messages must be equal except for numbers, shapes, places and names of values,
        and the explanations except for remarks in parentheses and quoted code.
        """
        return self._key() == other._key()

    def _key(self) -> tuple[str, ...]:
        message = "" if self.kind in ("timeout", "resources") else normalised(self.message)
        remedy = normalised(_REMARKS.sub("", self.remedy))
        return (self.kind, self.stage, self.compiler_pass, self.error, self.origin, message, remedy)

    @property
    def place(self) -> str:
        """Return a description of the failing part of the compiler."""
        text = STAGE_TEXTS.get(self.stage, self.stage)
        if self.compiler_pass:
            text += f", pass {self.compiler_pass}"
        # All errors of statements and expressions pass through the visitor.
        named = self.origin and not self.origin.endswith(".visit")
        return text + (f", in {self.origin}" if named else "")


#: Parts of messages that differ between a kernel and its reduction, and their replacements.
_VARIABLE_PARTS = (
    (re.compile(r"/\S+|\S+\.py(?::\d+)*"), "FILE"),
    (re.compile(r"0x[0-9a-fA-F]+"), "N"),
    (re.compile(r"[%#]\w+"), "VALUE"),
    (re.compile(r"\[[^][]*\]|(?<![\w.])\d+(?:x\d+)*x(?=[a-z])"), "SHAPE"),
    (re.compile(r"(?<![A-Za-z_\d])-?\d+(?:\.\d+)?"), "N"),
    (re.compile(r"\s+"), " "),
)


_REMARKS = re.compile(r"\([^()]*\)|`[^`]*`")


def normalised(message: str) -> str:
    """Return a message without the parts that depend on sizes, places and numbering."""
    for pattern, replacement in _VARIABLE_PARTS:
        message = pattern.sub(replacement, message)
    return message.strip()


def failure_of_exception(
    error: BaseException,
    stage: str,
    output: str,
    parameters: Sequence[str],
    constants: Mapping[str, Any],
) -> CompileFailure:
    """Return the failure that an exception of the compiler describes.

    Args:
        output: Text that the compiler wrote to standard error.
        parameters: Names of the kernel's parameters.
        constants: Values of the constant parameters, by name.
    """
    innermost = error
    while innermost.__cause__ is not None:
        innermost = innermost.__cause__
    name = type(innermost).__name__
    message = getattr(innermost, "error_message", None) or str(innermost)
    is_native = stage != FRONT_END or isinstance(innermost, RuntimeError)
    described = (_fatal(output) or _diagnostics(output)[:1]) if is_native else []
    if described:
        message = "\n".join(described)
    elif not is_compilation_error(innermost):
        message = _plain(message)
    wrapped = _WRAPPED.fullmatch(message)
    if wrapped is not None:
        name, message = wrapped["name"], wrapped["message"]
    return CompileFailure(
        kind="error",
        stage=stage,
        compiler_pass=_failing_pass(output),
        error=name,
        origin=_origin(innermost) if stage == FRONT_END else "",
        message=message.strip()[:_LONGEST_MESSAGE],
        remedy=explanation(error, constants, parameters),
    )


def failure_of_crash(how: str, stage: str, output: str) -> CompileFailure:
    """Return the failure of a compilation whose process has ended.

    Args:
        how: Description of the end, such as `was killed by SIGABRT (Aborted)`.
        output: Last part of what the process wrote to standard error.
    """
    fatal = _fatal(output) or _diagnostics(output)[:3]
    return CompileFailure(
        kind="crash",
        stage=stage,
        compiler_pass=_failing_pass(output),
        error=f"the process {how}",
        message="\n".join(fatal)[:_LONGEST_MESSAGE],
    )


#: The text of an exception inside Triton's front end, which raises a `CompilationError` instead.
_WRAPPED = re.compile(r"(?P<name>[A-Z]\w*)\((?P<quote>['\"])(?P<message>.*)(?P=quote)\)", re.DOTALL)
_FATAL = re.compile(r"LLVM ERROR|Assertion .* failed|UNREACHABLE|fatal error|cantFail|terminate")
#: The text that may follow a fatal error message: a stack trace, or the module that was compiled.
_STACK = re.compile(r"PLEASE submit|Stack dump|#?\d+[. ]|[#/]|module|$")
_PIPELINE = re.compile(r"Pipeline failed while executing \[([^\n]*)\]")
_PASS = re.compile(r"`([^`]+)` on")


def _failing_pass(output: str) -> str:
    """Return the innermost pass that MLIR names in the note about a failed pipeline."""
    pipelines = _PIPELINE.findall(output)
    passes = _PASS.findall(pipelines[-1]) if pipelines else []
    return str(passes[-1]) if passes else ""


def _fatal(output: str) -> list[str]:
    """Return the line in which native code reports a fatal error, and the next two lines.

    The next line often names the cause.
    """
    lines = [line.strip() for line in output.splitlines()]
    first = next((n for n, line in enumerate(lines) if _FATAL.search(line)), None)
    if first is None:
        return []
    return [lines[first], *takewhile(lambda line: not _STACK.match(line), lines[first + 1 :][:2])]


def _diagnostics(output: str) -> list[str]:
    """Return the errors of MLIR and LLVM, without their locations."""
    errors = re.findall(r"^(?:\S+?:|loc\([^\n]*?\):)? ?error: ([^\n]+)", output, re.MULTILINE)
    return [text for text in errors if "Failures have been detected" not in text]


def _plain(message: str) -> str:
    """Return the lines of a message that describe the error, without the surrounding lines."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\s*:|\bfatal\s*:", line)]
    return "\n".join(errors[:3] or lines[:3])


def _origin(error: BaseException) -> str:
    """Return the innermost Python function of Triton in a traceback."""
    origin, entry = "", error.__traceback__
    while entry is not None:
        if owner_of_frame(entry.tb_frame) == "triton":
            module = entry.tb_frame.f_globals.get("__name__", "")
            origin = f"{module}.{entry.tb_frame.f_code.co_name}"
        entry = entry.tb_next
    return origin
