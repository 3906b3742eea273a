"""Processes of the candidate and the reference, and the requests that they answer."""
