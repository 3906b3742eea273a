"""Records of launches: files that carry kernels with their arguments to another machine."""
