"""Import the names of a package on first use (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any


def lazy_names(
    package: str, modules: Mapping[str, tuple[str, ...]], packages: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package with names from other modules.

    Parameters
    ----------
    package : ``__name__`` of the package
    modules : names to import, by module. No name may equal a module of the package.
    packages : subpackages that are attributes without an entry in ``__all__``

    Notes
    -----
    Repeat the imports under ``TYPE_CHECKING`` for type checkers and editors.

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
        setattr(sys.modules[package], name, value)  # the next access needs no call
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of, *packages})

    return get, names, sorted(module_of)


class LazyModule:
    """Import a module on the first use of a name.

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


# A search of words needs no sparse matrix. The import takes longer than the search.
if TYPE_CHECKING:
    from scipy import sparse as sparse
else:
    sparse = LazyModule("scipy.sparse")
