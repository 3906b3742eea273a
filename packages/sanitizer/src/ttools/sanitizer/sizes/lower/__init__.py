"""What symbolic and concrete walks over a kernel do alike."""
