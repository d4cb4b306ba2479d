"""Slow, obvious NumPy versions of the papers' equations. Tests compare the product with these, number for number.

Everything is dense and in double precision; a preference is a tuple (q, d_better, d_worse) of vectors.
"""

from oracles.latent import *  # noqa: F403
from oracles.linear import *  # noqa: F403
from oracles.pairs import *  # noqa: F403
from oracles.rls import *  # noqa: F403
from oracles.rounds import *  # noqa: F403
from oracles.texts import *  # noqa: F403
