"""Hands damaged files, options and variables to every reader, and counts what becomes of them.

`python -m tools.fuzz_readers --count N --seed S [--reader NAME]` makes sound inputs with the
project's own writers, damages each in many ways, and gives them to what the command line calls.
A reader may take an input or refuse it with a sentence; a traceback, a process that dies, an
endless run and a failure of ttools are defects.
"""
