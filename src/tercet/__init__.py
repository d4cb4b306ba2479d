"""Tercet learns to rank from preferences: a query, a better document, a worse one."""

__version__ = "0.1.0"
