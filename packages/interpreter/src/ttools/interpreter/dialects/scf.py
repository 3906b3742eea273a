"""The `scf` dialect: terminators of structured control flow.

The operations with regions have a syntax of their own, read in
`ttools.interpreter.parser.structured`. Formats: https://mlir.llvm.org/docs/Dialects/SCFDialect/
"""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

OPERATIONS: dict[str, OpSyntax] = {
    "scf.yield": OpSyntax("attr-dict ($results* `:` type($results*))?", ()),
    "scf.condition": OpSyntax("`(` $condition `)` attr-dict ($args* `:` type($args*))?", ()),
}
