"""Parser of TTIR text, which creates the interpreter's IR.

The interface consists of `parse_module`, and of `parse_foreign` for text of unknown origin. The
modules of this package are `lexer` (tokens), `cursor` (reading tokens), `types`, `floats`,
`attributes` and `locations` (parts of operations), `assembly` (compiles the formats that
`ttools.ir.dialects` declares), `structured` (operations with a custom syntax), and `parser`
(operations, blocks, regions, the module).
"""

from ttools.ir.parser.lexer import ParseError
from ttools.ir.parser.parser import parse_module
from ttools.ir.parser.untrusted import parse_foreign

__all__ = ["ParseError", "parse_foreign", "parse_module"]
