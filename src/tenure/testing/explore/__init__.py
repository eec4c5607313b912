"""The explorer: visits every reachable state of named scopes and checks the design's invariants in each.

It drives the pure core (``decide``, ``decide_heartbeat``, ``next_deadline``, ``evolve``) from every side at once:
owners that act, stall, die and come back with commands under old epochs, a provider whose requests land late, a
watchdog that sleeps, people who answer, cancel and reverse. Run it as ``python -m tenure.testing.explore``.
"""
