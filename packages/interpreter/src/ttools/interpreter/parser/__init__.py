"""TTIR text to the interpreter's IR.

`parse_module`, and `parse_foreign` for text of unknown origin, are the whole interface. The files
below it: `lexer` (tokens), `cursor` (reading
them), `types`, `floats`, `attributes`, `locations` (the parts of an operation), `assembly`
(compiling the formats that `ttools.interpreter.dialects` declares), `structured` (operations whose
syntax is their own), `parser` (operations, blocks, regions, the module).
"""

from ttools.interpreter.parser.foreign import parse_foreign
from ttools.interpreter.parser.lexer import ParseError
from ttools.interpreter.parser.parser import parse_module

__all__ = ["ParseError", "parse_foreign", "parse_module"]
