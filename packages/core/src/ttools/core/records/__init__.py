"""Records of launches: files that carry kernels with their arguments to another machine.

Owns their form and its limits. Must not know how launches are recorded or made again.
"""
