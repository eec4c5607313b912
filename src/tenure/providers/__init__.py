"""Adapters of outside systems. Each module needs the extra of its name, where it has one."""
