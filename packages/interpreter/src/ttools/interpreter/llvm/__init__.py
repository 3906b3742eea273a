"""LLVM IR: typed values, instructions and functions, and their conversion to text."""
