"""All sizes at once: which are right, by proof, and the least one at which a defect appears."""
