"""Recording of a profiled run: origins, repetitions and times of launches."""
