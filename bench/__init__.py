"""Benchmarks: ``python -m bench`` lists the subjects. Not part of the package, and imported by nothing in it."""
