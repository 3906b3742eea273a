"""Reports of tunings: HTML pages, notebook output, pandas frames and exports."""
