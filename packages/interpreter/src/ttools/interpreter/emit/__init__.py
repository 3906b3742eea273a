"""Emission of LLVM IR from the IR of a kernel and the facts of its launches."""
