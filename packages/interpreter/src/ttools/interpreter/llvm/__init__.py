"""LLVM IR: typed values, instructions, functions and their text."""
