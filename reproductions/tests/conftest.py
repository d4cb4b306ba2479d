"""Hypothesis profiles of the tests, the same as in tests/conftest.py."""

from hypothesis import settings

settings.register_profile("tercet", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("tercet"), max_examples=10)  # of `make check`
settings.load_profile("tercet")
