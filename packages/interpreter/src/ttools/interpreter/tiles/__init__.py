"""Tiles in registers and in memory: chunks of lanes, loops over chunks, and slots."""
