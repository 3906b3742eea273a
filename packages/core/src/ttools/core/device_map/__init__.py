"""`--device-map cuda=cpu`: what torch and Proton answer while the CPU stands in for a GPU."""
