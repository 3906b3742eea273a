"""The user's function that computes the expected outputs: `--reference MODULE:FUNCTION`.

The function is called once with copies of the launch's arguments, passed by name; it receives only
the arguments that its signature names. It returns the expected tensors by the names of the kernel's
parameters. Alternatively, it writes them into its copies and returns None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.process.user_module import (
    LoadError,
    describe,
    function_of,
    load_file,
)

Reference = Callable[..., "Mapping[str, Any] | None"]


def split_reference(text: str) -> tuple[str, str]:
    """Split `MODULE:FUNCTION` into module and function.

    Raises:
        UsageError: The text does not have this form.
    """
    module, _, name = text.rpartition(":")
    if not module or not name:
        raise UsageError(f"`{text}` does not name a function; use MODULE:FUNCTION")
    return module, name


def load_reference(text: str) -> Reference:
    """Load the function that `MODULE:FUNCTION` or `FILE.py:FUNCTION` names.

    Raises:
        UsageError: The function cannot be loaded.
    """
    where, name = split_reference(text)
    if where.endswith(".py"):
        module = load_file(where)
    else:
        try:
            module = import_module(where)
        except (Exception, SystemExit) as error:
            raise LoadError(where, f"cannot be loaded: {describe(error)}") from error
    return function_of(module, name, where)  # type: ignore[no-any-return]


def expected_outputs(
    text: str,
    function: Reference,
    arguments: Mapping[str, Any],
    reached: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Return the outputs that a reference function computes, by parameter name.

    Args:
        text: The user's name for the function.
        arguments: Arguments of the launch by name; they are copied, not changed.
        reached: Tensors that are reached through tables of addresses, by names such as `table[3]`.

    Raises:
        UsageError: The function raises an exception, or returns neither None nor expected tensors.
    """
    copies = {name: _copy(value) for name, value in arguments.items()}
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    wanted = {parameter.name for parameter in parameters}
    passed = {name: value for name, value in copies.items() if takes_all or name in wanted}
    try:
        returned = function(**passed)
    except Exception as error:
        raise UsageError(f"`{text}` fails: {type(error).__name__}: {error}") from error
    if returned is None:
        return {name: v for name, v in passed.items() if hasattr(v, "untyped_storage")}
    if not isinstance(returned, Mapping):
        raise UsageError(
            f"`{text}` must return {{name: tensor}}, or write into its arguments and return "
            f"nothing, but returned a {type(returned).__name__}"
        )
    unknown = [name for name in returned if name not in arguments and name not in (reached or {})]
    if unknown:
        raise UsageError(
            f"`{text}` returned `{unknown[0]}`, which is not an argument of the kernel"
        )
    return returned


def _copy(value: Any) -> Any:
    return value.detach().clone() if hasattr(value, "untyped_storage") else value
