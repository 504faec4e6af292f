"""Reproducible benchmarks: each prints ratios taken in one run and writes JSON with the machine's facts."""
