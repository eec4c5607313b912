"""The crash matrix of effects: every kind of provider, struck by every fault at every point of a call.

``python -m tenure.testing.crashes`` runs it, with real processes on a real file, and prints the table.
"""
