"""Routing graphs as files: reading, judging, drawing. The graph itself is in :mod:`tenure.protocol.graph`."""
