"""TTGIR layouts, which map elements of a tile to threads or to offsets in shared memory."""
