"""The files that ``tenure init`` writes, as they are written."""
