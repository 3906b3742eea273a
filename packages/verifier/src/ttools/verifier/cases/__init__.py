"""The cases of a verification: the domain of the inputs, sizes, values, views and their order."""
