"""Parser of TTIR of unknown origin, for example from a user's file.

The parser assumes text that Triton has just written. For other text, an exception in the parser
means that the text is invalid, so this module converts it to an error about the user's input.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ttools.ir as ir
from ttools.core.errors import TtoolsError, UnsupportedError, UsageError
from ttools.core.triton_versions import refuse_damaged_ttir
from ttools.ir.parser.lexer import ParseError
from ttools.ir.parser.parser import parse_module


def parse_foreign(text: str, name: str) -> ir.Module:
    """Parse the module of a file; see `parse_module`.

    Args:
        text: Text of the module.
        name: Name of the text in errors.

    Raises:
        UsageError: The text is not TTIR as Triton prints it.
        UnsupportedError: The text contains an operation that ttools does not support.
    """
    with foreign(text, name):
        return parse_module(text, name)


@contextmanager
def foreign(text: str, name: str) -> Iterator[None]:
    """Convert exceptions that occur while text is processed to errors about the text.

    Raises:
        UsageError: The text is not TTIR as Triton prints it.
        UnsupportedError: The text contains something that ttools does not support.
    """
    try:
        yield
    except ParseError as error:
        raise UsageError(str(error)) from error
    except UnsupportedError:
        # If Triton rejects the text, too, it is invalid and not merely unsupported.
        refuse_damaged_ttir(text, name)
        raise
    except (TtoolsError, MemoryError):
        raise
    except Exception as error:
        raise UsageError(
            f"{name} is not TTIR in the form that Triton writes ({type(error).__name__}: {error})"
        ) from error
