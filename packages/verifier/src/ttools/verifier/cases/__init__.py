"""What is tried: the domain of the inputs, sizes, values and views, and the plan of a run."""
