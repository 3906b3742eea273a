"""Functions of the runtime that are written in C, and modules that make them callable in Python.

`tools/native_code.py` compiles the C files to LLVM IR, which is checked in next to them.
"""
