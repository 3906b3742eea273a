"""TTIR text to the interpreter's IR.

`parse_module`, and `parse_foreign` for text of unknown origin, are the whole interface. The files
below it: `lexer` (tokens), `cursor` (reading
them), `types`, `floats`, `attributes`, `locations` (the parts of an operation), `assembly`
(compiling the formats that `ttools.ir.dialects` declares), `structured` (operations whose
syntax is their own), `parser` (operations, blocks, regions, the module).
"""

from ttools.ir.parser.lexer import ParseError
from ttools.ir.parser.parser import parse_module
from ttools.ir.parser.untrusted import parse_foreign

__all__ = ["ParseError", "parse_foreign", "parse_module"]
