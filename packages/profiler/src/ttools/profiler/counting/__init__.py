"""Work counted rather than annotated: operations and bytes of a launch, exactly, by line of source.

A kernel is rewritten so that it computes only what decides which lanes run: loops, branches, masks.
Results and memory stay as they are.
"""
