"""Tests that pytest's plugin checks."""

import program


def test_program():
    program.main()
