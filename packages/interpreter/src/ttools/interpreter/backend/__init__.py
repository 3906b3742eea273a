"""The Triton backend plugin named `cpu`.

`import triton` imports the modules `compiler` and `driver` of this package, and does not catch
errors that these imports raise. Therefore these modules import only the standard library and Triton
at their top, and other modules on first use.
"""
