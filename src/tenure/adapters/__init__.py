"""One file per agent framework. None is imported here, and no file imports its framework before it was given an agent.

They look at what an agent has, not at where its class comes from, so that a subclass, a wrapper and the next version
are understood as well; what cannot be seen is told, never invented.
"""
