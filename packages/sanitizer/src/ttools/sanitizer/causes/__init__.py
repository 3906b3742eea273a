"""The causes of findings: masks, indices and barriers that several findings have in common."""
