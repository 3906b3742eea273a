"""Parses TTIR of unknown origin, such as that of a file.

The parser assumes text that Triton has just written. For other text, an exception in the parser
means that the text is invalid, so this module converts it to an error of the user's input.
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
    """Convert exceptions while a text of unknown origin is processed to errors of the text.

    Raises:
        UsageError: The text is not TTIR as Triton prints it.
        UnsupportedError: The text contains something that ttools does not support.
    """
    try:
        yield
    except ParseError as error:
        raise UsageError(str(error)) from error
    except UnsupportedError:
        # An operation that Triton does not know either makes the text invalid, not unsupported.
        refuse_damaged_ttir(text, name)
        raise
    except (TtoolsError, MemoryError):
        raise
    except Exception as error:
        raise UsageError(
            f"{name} is not as Triton writes it ({type(error).__name__}: {error})"
        ) from error
