"""The retail service: a separate process with its own database, which the example's team acts on over HTTP."""
