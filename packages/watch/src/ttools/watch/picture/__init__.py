"""Pictures: a page that shows what the programs of a launch held, loaded and stored."""
