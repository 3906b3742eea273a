"""Passes damaged files, options and environment variables to every reader, and counts the outcomes.

`python -m tools.fuzz_readers --count N --seed S [--reader NAME]` makes valid inputs with the
project's own writers, damages them in many ways, and passes them to the functions that the command
line calls. A reader may accept an input, or reject it with an error message. Defects are
tracebacks, processes that die or hang, and internal failures of ttools.
"""
