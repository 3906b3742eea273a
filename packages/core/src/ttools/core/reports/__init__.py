"""Reports of a run's findings as text, JSON, SARIF, JUnit, GitHub annotations or a page.

Each writer is a function from a `Report` to a string; `registry` lists the writers by name.
"""
