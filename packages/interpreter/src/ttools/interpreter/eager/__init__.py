"""The eager engine: CPython runs a kernel's own source, program by program, on NumPy values.

It is made for debugging: breakpoints, `print` and exceptions behave as in any Python code. Triton's
own semantic layer determines types, broadcasting and promotion. It calls a builder for each
operation; here, the builder is not MLIR's, which would only record the operation, but the one in
`builder.py`, which computes the result immediately. `docs/design/eager.md` describes the engine.
"""
