"""Emission: IR and launch facts in, LLVM IR text out."""
