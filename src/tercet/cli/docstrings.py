"""Search collection of the docstrings of installed packages.

Documents are docstrings. Queries are the descriptions in "See Also" sections; the answer is the described object.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pkgutil
import re
import textwrap
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from tercet.data import JudgedTexts

SPLITS = {"train": 0.60, "validation": 0.15, "test": 0.25}

# Test code, build code, and copies of other projects. Importing numpy.distutils patches the standard library.
_NOT_DOCUMENTATION = frozenset({"tests", "conftest", "setup", "externals", "distutils"})

# "Equivalent function" describes forty objects, so the description is no query.
_MOST_ANSWERS = 5

_SET_OF_STRINGS = re.compile(r"\{('\w+'(?:, '\w+')+)\}")
_UNDERLINE = r"[ \t]*\n[ \t]*(?:-{3,}|={3,})[ \t]*$"
_SEE_ALSO = re.compile(
    rf"^[ \t]*see also{_UNDERLINE}(?P<entries>.*?)(?=^\.\. |^[^\n]*\S{_UNDERLINE}|\Z)", re.I | re.M | re.S
)
_NAME = r"(?:(?::\w+)+:)?`~?[\w.]+`|[\w.]+"  # may be in backquotes, with a role of Sphinx before them
_ENTRY = re.compile(rf"(?P<names>(?:{_NAME})(?:\s*,\s*(?:{_NAME}))*)\s*,?\s*(?::\s*(?P<description>.*))?")
_MARKUP = re.compile(r"(?::\w+)+:(?=`)|[`~\s]")


def docstring_collection(packages: Sequence[str] = ("numpy", "scipy", "sklearn"), random_state: int = 0) -> JudgedTexts:
    """Make a search collection of the docstrings of installed packages.

    Documents are the docstrings of public functions, classes and methods without their "See Also" sections. An object
    with several public names is one document under the shortest name. A description of more than five objects is no
    query. Queries are divided at random into 60 % train, 15 % validation and 25 % test.

    Parameters
    ----------
    packages : names of installed packages; their modules are imported
    random_state : seed of the division

    Examples
    --------
    >>> collection = docstring_collection(["json"])
    >>> collection.docs["json.load"].splitlines()[0]
    'load'
    """
    objects = _public_objects(_public_modules(packages), roots=set(packages))
    document_of = {name: names[0] for _, names in objects for name in names}
    docs: dict[str, str] = {}
    answers: dict[str, set[str]] = {}  # by the text of the query
    for docstring, names in objects:
        docs[names[0]] = f"{names[0].rpartition('.')[2]}\n{_SEE_ALSO.sub('', docstring).strip()}"
        for section in _SEE_ALSO.finditer(docstring):
            for name, description in _entries(section["entries"]):
                doc_id = _resolved(name, names, document_of)
                if doc_id is not None:
                    answers.setdefault(description, set()).add(doc_id)
    asked = {text: sorted(answers[text]) for text in sorted(answers) if len(answers[text]) <= _MOST_ANSWERS}
    queries = {f"q{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}": text for text in asked}
    qrels: dict[str, dict[str, dict[str, int]]] = {split: {} for split in SPLITS}
    for qid, split in zip(queries, _divided(len(asked), random_state), strict=True):
        qrels[split][qid] = dict.fromkeys(asked[queries[qid]], 1)
    return JudgedTexts(docs, queries, qrels)


# -- documents --------------------------------------------------------------------------------------------------------


def _public_modules(packages: Sequence[str]) -> list[types.ModuleType]:
    """Import all public modules. A module that fails is left out unless its name is in ``packages``."""
    modules: list[types.ModuleType] = []
    waiting = sorted(packages, reverse=True)
    while waiting:
        name = waiting.pop()
        try:
            with warnings.catch_warnings():  # deprecated modules warn
                warnings.simplefilter("ignore")
                module = importlib.import_module(name)
        except (Exception, SystemExit):  # an import runs any code
            if name in packages:
                raise
            continue
        modules.append(module)
        inside = [info.name for info in pkgutil.iter_modules(vars(module).get("__path__", ()))]
        public = [part for part in inside if not part.startswith("_") and part not in _NOT_DOCUMENTATION]
        waiting += [f"{name}.{part}" for part in sorted(public, reverse=True)]
    return modules


def _public_objects(modules: list[types.ModuleType], roots: set[str]) -> list[tuple[str, list[str]]]:
    """Return docstring and names of each documented function, class and method, the preferred name first."""
    objects: dict[int, tuple[str, list[tuple[bool, int, str]]]] = {}  # by identity: one object, one document

    def add(thing: object, name: str, is_inherited: bool = False) -> None:
        docstring = thing.__doc__
        if isinstance(docstring, str) and docstring.strip():
            _, names = objects.setdefault(id(thing), (_settled(inspect.cleandoc(docstring)), []))
            names.append((is_inherited, len(name), name))

    for module in modules:
        for name, thing in _module_members(module, roots):
            add(thing, name)
            for method_name, method, is_inherited in _methods(thing, roots) if isinstance(thing, type) else ():
                add(method, f"{name}.{method_name}", is_inherited)
    named = [(docstring, [name for _, _, name in sorted(set(names))]) for docstring, names in objects.values()]
    return sorted(named, key=lambda documented: documented[1][0])


def _settled(docstring: str) -> str:
    """Remove the parts of a docstring that differ between processes.

    SciPy generates docstrings with random numbers, marked "may vary", and with sets of names in hash order.
    """
    lines = [line for line in docstring.splitlines() if not line.endswith("# may vary")]
    return _SET_OF_STRINGS.sub(lambda match: f"{{{', '.join(sorted(match[1].split(', ')))}}}", "\n".join(lines))


def _module_members(module: types.ModuleType, roots: set[str]) -> Iterator[tuple[str, object]]:
    """Yield dotted name and object of the public classes and callables of a module."""
    members = vars(module)
    for name in sorted(set(members.get("__all__", members))):
        if name.startswith("_") or name not in members:
            continue
        thing = _unbound(members[name])
        if not callable(thing) or isinstance(thing, types.GenericAlias):
            continue
        # scipy.stats.ortho_group is the only instance of its class and has its docstring.
        if not (_has_own_docstring(thing) or _root(type(thing)) in roots):
            continue
        # Without __all__, imported objects are not public names of the module.
        home = getattr(thing, "__module__", None) or ""
        if "__all__" in members or f"{home}.".startswith(f"{module.__name__}."):
            yield f"{module.__name__}.{name}", thing


def _has_own_docstring(thing: object) -> bool:
    """Return True if the docstring is not inherited from the object's class."""
    return isinstance(thing, type) or thing.__doc__ != type(thing).__doc__


def _root(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _unbound(thing: object) -> object:
    """Return the function of a method of a hidden instance: numpy.random.normal is a method of RandomState."""
    owner = getattr(thing, "__self__", None)
    if isinstance(thing, types.MethodType):
        return thing.__func__
    if isinstance(thing, types.BuiltinMethodType) and not isinstance(owner, (types.ModuleType, type, type(None))):
        return getattr(type(owner), thing.__name__)
    return thing


def _methods(cls: type, roots: set[str]) -> Iterator[tuple[str, object, bool]]:
    """Yield name, method and an is-inherited flag for the public methods that these packages define."""
    seen: set[str] = set()
    for base in cls.__mro__:
        for name, member in vars(base).items() if _root(base) in roots else ():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            member = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            is_method = inspect.isroutine(member) and not isinstance(member, cached_property)
            if is_method and _has_own_docstring(member):
                yield name, member, base is not cls


# -- queries ----------------------------------------------------------------------------------------------------------


def _entries(section: str) -> Iterator[tuple[str, str]]:
    """Yield name and description of the entries of a "See Also" section that have a description."""
    for block in re.split(r"\n(?=\S)", textwrap.dedent(section)):
        first, *rest = block.strip("\n").split("\n")
        entry = _ENTRY.fullmatch(first.strip())
        description = "" if entry is None else " ".join(" ".join((entry["description"] or "", *rest)).split())
        if entry is not None and re.search(r"\w", description):  # SciPy writes ".." for a missing description
            for name in _MARKUP.sub("", entry["names"]).split(","):
                yield name, description


def _resolved(name: str, names: list[str], document_of: Mapping[str, str]) -> str | None:
    """Return the document that a name means in the docstring of the object called ``names``, or None.

    The name is looked up in the object's class, its module, the enclosing packages, and as an absolute name.
    """
    for own_name in names:
        around = own_name
        while around := around.rpartition(".")[0]:
            if (doc_id := document_of.get(f"{around}.{name}")) is not None:
                return doc_id
    return document_of.get(name)


def _divided(n: int, random_state: int) -> list[str]:
    """Draw the split of each of n queries; each split gets its exact share."""
    ends = np.cumsum([round(share * n) for share in SPLITS.values()])
    rank = np.random.default_rng(random_state).permutation(n)
    names = list(SPLITS)
    return [
        names[min(int(np.searchsorted(ends, position, side="right")), len(names) - 1)] for position in rank.tolist()
    ]
