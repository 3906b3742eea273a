"""A test module that pytest runs with the ttools plugin."""

import program


def test_program():
    program.main()
