"""Benchmarks of this machine: ``rtts bench``, and what ``bench/`` of the project runs.

Each module has ``measure`` (figures as plain values), ``lines`` (for people) and the scenarios it runs. Nothing is
asserted: machines differ, and figures of one run are compared with each other.
"""
