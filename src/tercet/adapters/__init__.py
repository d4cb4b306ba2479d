"""Tercet inside other libraries. Each module needs its own library, and only when it is used."""
