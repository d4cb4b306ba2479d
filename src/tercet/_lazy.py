"""Names of a package that are imported when they are first used (PEP 562), so that a part costs what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any


def lazy_names(
    package: str, modules: Mapping[str, tuple[str, ...]], packages: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names live in other modules.

    Parameters
    ----------
    package : its ``__name__``
    modules : module -> the names that are taken from it. None of them may be the name of a module inside the package,
        which Python would put in its place.
    packages : packages inside the package, which are attributes of it, too, without being listed in ``__all__``

    Notes
    -----
    Beside the table stand the same imports under ``TYPE_CHECKING``: type checkers and editors read those.

    Examples
    --------
    >>> get, names, public = lazy_names(__name__, {"math": ("sqrt",)})
    >>> get("sqrt")(9.0)
    3.0
    >>> public
    ['sqrt']
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name in packages:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)  # found without a call from now on
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of, *packages})

    return get, names, sorted(module_of)


class LazyModule:
    """A module that is imported when one of its names is first used.

    Examples
    --------
    >>> LazyModule("math").sqrt(9.0)
    3.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


# A search of words needs no sparse matrix, and the import takes longer than the search.
if TYPE_CHECKING:
    from scipy import sparse as sparse
else:
    sparse = LazyModule("scipy.sparse")
