"""What may happen: pure. No I/O, no clock, no randomness, no asyncio.

``decide(books, command, now)`` turns a wish into facts or refuses it; ``evolve(task, event)`` turns a fact into the
next state. The tables of :mod:`tenure.protocol.machines` hold every transition.
"""
