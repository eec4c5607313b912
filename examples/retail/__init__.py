"""A retail desk on Tenure: a team of agents in front of a separate HTTP service that really acts."""
