"""Indexes whose documents other engines keep."""
