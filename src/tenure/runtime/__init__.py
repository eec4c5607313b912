"""Making it happen: teams, tenures, the worker that grants them and the watch over deadlines."""
