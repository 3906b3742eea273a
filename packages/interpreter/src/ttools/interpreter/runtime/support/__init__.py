"""Functions of the runtime that are LLVM IR written by hand, and how Python reaches them."""
