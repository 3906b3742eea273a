"""TTIR that Triton did not just write, as the interpreter's IR.

The parser trusts the text: what surprises it there is a defect of a file, not of ours. Owns telling
the two apart. Must not know where the text is from.
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
    """Parses the module of a file; see `parse_module`.

    Args:
        text: of the module.
        name: what to call the text in errors.

    Raises:
        UsageError: it is not TTIR as Triton prints it.
        UnsupportedError: it is, but ttools does not know an operation.
    """
    with foreign(text, name):
        return parse_module(text, name)


@contextmanager
def foreign(text: str, name: str) -> Iterator[None]:
    """What goes wrong inside with a text of unknown origin is the text's fault.

    Raises:
        UsageError: the text is not TTIR as Triton prints it.
        UnsupportedError: it is, but ttools does not know what it says.
    """
    try:
        yield
    except ParseError as error:
        raise UsageError(str(error)) from error
    except UnsupportedError:
        # What Triton does not know either is no gap of ours.
        refuse_damaged_ttir(text, name)
        raise
    except (TtoolsError, MemoryError):
        raise
    except Exception as error:
        raise UsageError(
            f"{name} is not as Triton writes it ({type(error).__name__}: {error})"
        ) from error
