"""Runs third-party Triton libraries on the engine, and reports which cases pass."""
