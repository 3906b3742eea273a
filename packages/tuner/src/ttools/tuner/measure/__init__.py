"""One configuration at a time: verified against the reference, then timed."""
