"""What is right: the reference in double precision, tolerances, and how results compare."""
