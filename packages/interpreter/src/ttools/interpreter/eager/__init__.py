"""The eager engine: CPython runs a kernel's own source, program by program, on NumPy values.

For looking: breakpoints, `print` and exceptions behave as in any Python code. Triton's own
semantic layer decides types, broadcasting and promotion; `builder` stands where it expects MLIR's
builder and computes at once what the compiler would only write down.
"""
