"""A service that searches an index, gives its reasons, and learns from teachers while it serves.

`TaughtStore` and `read_taught` need only the file. The HTTP modules, `tercet.serve.app` and `tercet.serve.run`, need
the extra ``serve``.
"""

from tercet.data.taught import Action, TaughtFile, read_taught
from tercet.serve.taught import TaughtStore, back_up

__all__ = ["Action", "TaughtFile", "TaughtStore", "back_up", "read_taught"]
