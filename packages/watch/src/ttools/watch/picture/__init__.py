"""Pictures: a page with the values, loads and stores of a launch's programs."""
