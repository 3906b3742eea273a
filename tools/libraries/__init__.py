"""Runs other people's Triton libraries on the native engine and says what passes."""
