"""Triton's language and MLIR builder, for the eager engine."""

from __future__ import annotations

from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.location import SourceLocation, excerpt
from ttools.core.triton_versions.front_end import Signature


def semantic_class() -> Any:
    """Return the class that implements the types, promotion and broadcasting of `tl`."""
    from triton.language.semantic import TritonSemantic

    return TritonSemantic


def mlir_context() -> Any:
    """Return an MLIR context with Triton's dialects."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    return context


def mlir_builder(context: Any) -> Any:
    """Return an MLIR builder without an insertion point."""
    from triton._C.libtriton import ir

    return ir.builder(context)


def begin_function(builder: Any, name: str, parameters: list[Any]) -> tuple[Any, Any]:
    """Return a module with a function that has no results, and the function with an open body.

    Args:
        builder: An MLIR builder without an insertion point, see `mlir_builder`.
        parameters: MLIR types of the parameters.
    """
    module = builder.create_module()
    type_ = builder.get_function_ty(parameters, [])
    function = builder.get_or_insert_function(module, name, type_, "public", False)
    module.push_back(function)
    builder.set_insertion_point_to_start(function.add_entry_block())
    return module, function


def language_type(name: Signature) -> Any:
    """Return `tl`'s type for a type in a kernel's signature."""
    from triton import language

    return language.str_to_ty(name, None)


def combine_function(region_builder: Any) -> Any:
    """Return the jit function passed to a reduction, scan or map.

    Args:
        region_builder: The closure by which `triton.language.core` translates the function to MLIR.
    """
    cells = dict(
        zip(region_builder.__code__.co_freevars, region_builder.__closure__ or (), strict=True)
    )
    for name in ("combine_fn", "scalar_fn"):
        if name in cells:
            return cells[name].cell_contents
    raise TtoolsError(
        "ttools does not know the reductions of this Triton version; this is a bug in ttools, "
        "please report it"
    )


def argument_type(argument: Any) -> str:
    """Return Triton's type of a kernel argument, as in a signature."""
    from triton.runtime.jit import mangle_type

    return str(mangle_type(argument))


def static_assertion_failure(location: SourceLocation | None, message: str) -> Exception:
    """Return the exception that Triton raises for a failed `static_assert`."""
    from triton.compiler.errors import CompileTimeAssertionFailure

    text = "static_assert failed" + (f": {message}" if message else "")
    return _located(CompileTimeAssertionFailure, location, text)


def is_type_mismatch(error: Exception) -> bool:
    """Return whether Triton's semantic layer reports incompatible operands."""
    from triton.language.semantic import IncompatibleTypeErrorImpl

    return isinstance(error, IncompatibleTypeErrorImpl)


def compilation_error(location: SourceLocation | None, cause: Exception) -> Exception:
    """Return Triton's error for a mistake in a kernel's source.

    Args:
        cause: The exception that Triton's own library raised.
    """
    from triton.compiler.errors import CompilationError

    if isinstance(cause, CompilationError):
        return cause  # type: ignore[no-any-return]
    text = str(getattr(cause, "message", "")) or str(cause) or type(cause).__name__
    return _located(CompilationError, location, text)


def _located(kind: Any, location: SourceLocation | None, text: str) -> Exception:
    error: Any = kind(None, None, text)
    # Without a syntax tree, Triton's default message would say that the source is missing.
    lines = [f"{location}: {text}", excerpt(location)] if location is not None else [text]
    error.message = "\n".join(filter(None, lines))
    return error  # type: ignore[no-any-return]
