"""The processes of candidate and reference: how they are started, held and spoken to."""
