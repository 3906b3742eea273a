"""The checks: what each looks for, and the findings that it makes of a launch."""
