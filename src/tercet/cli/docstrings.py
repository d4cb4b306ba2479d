"""A search collection that is already on disk: the docstrings of installed packages.

Documents are docstrings; queries are the descriptions in their "See Also" sections, and each asks for the
object that it describes.
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
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tercet._validate import check_seed
from tercet.errors import InputError

SPLITS = {"train": 0.60, "validation": 0.15, "test": 0.25}

# Test code, build code, and copies of other projects. Importing numpy.distutils patches the standard library.
_NOT_DOCUMENTATION = frozenset({"tests", "conftest", "setup", "externals", "distutils"})

# "Equivalent function" describes forty things; whoever asks that asks for none of them.
_MOST_ANSWERS = 5

_NAME = r"(?:(?::\w+)+:)?`~?[\w.]+`|[\w.]+"
_ENTRY = re.compile(rf"(?P<names>(?:{_NAME})(?:\s*,\s*(?:{_NAME}))*)\s*,?\s*(?::\s*(?P<description>.*))?")
_ROLE = re.compile(r"(?::\w+)+:(?=`)")
_SET_OF_STRINGS = re.compile(r"\{('\w+'(?:, '\w+')+)\}")
_UNDERLINE = re.compile(r"\s*(-{3,}|={3,})\s*")


@dataclass(frozen=True, kw_only=True)
class DocstringCollection:
    """Docstrings as documents, "See Also" descriptions as queries.

    Attributes
    ----------
    docs : document id, which is the object's dotted name, to text
    queries : query id, which depends on the query's text alone, to text
    qrels : ``"train"``, ``"validation"`` and ``"test"``, each query id to {document id: 1}
    skipped : modules that could not be imported, and why
    unresolved : document id and "See Also" entry, for entries that name no document or cannot be read
    """

    docs: dict[str, str] = field(repr=False)
    queries: dict[str, str] = field(repr=False)
    qrels: dict[str, dict[str, dict[str, int]]] = field(repr=False)
    skipped: dict[str, str]
    unresolved: tuple[tuple[str, str], ...] = field(repr=False)

    def __str__(self) -> str:
        sizes = ", ".join(f"{len(judged)} {split}" for split, judged in self.qrels.items())
        return (
            f"{len(self.docs)} documents, {len(self.queries)} queries ({sizes}); "
            f"{len(self.skipped)} modules skipped, {len(self.unresolved)} entries unresolved"
        )


def docstring_collection(
    packages: Sequence[str] = ("numpy", "scipy", "sklearn"), random_state: int = 0
) -> DocstringCollection:
    """Make a search collection of the docstrings of installed packages.

    Documents are the docstrings, without their "See Also" sections, of the public functions, classes and
    methods in public modules: names without a leading underscore, no tests, no vendored code. What a module
    gives out only through ``__getattr__``, as modules kept for old code do, is not looked at. An object with
    several public names is one document, under the shortest (then alphabetically first); a method is called
    after the class that defines it, or after a subclass if that one is private.

    A description of more than five objects is no query. The queries are divided into about 60 % train, 15 %
    validation and 25 % test, such that queries with an answer in common are never apart.

    Parameters
    ----------
    packages : names of installed packages; their modules are imported, with warnings silenced
    random_state : seed of the division

    Notes
    -----
    About two seconds for NumPy, SciPy and scikit-learn once they are imported.

    Examples
    --------
    >>> collection = docstring_collection(["json"])
    >>> collection.docs["json.load"].splitlines()[0]
    'load'
    """
    if isinstance(packages, str) or not packages or not all(isinstance(name, str) for name in packages):
        raise InputError(f"packages must be a list of at least one package name, found {packages!r}")
    random_state = check_seed(random_state)
    modules, skipped = _public_modules(packages)
    objects = _public_objects(modules)
    docs: dict[str, str] = {}
    targets: dict[str, set[str]] = {}
    unresolved: list[tuple[str, str]] = []
    document_of = {name: documented.doc_id for documented in objects for name in documented.names}
    for documented in objects:
        text, sections = _without_see_also(documented.docstring)
        docs[documented.doc_id] = f"{documented.doc_id.rpartition('.')[2]}\n{text}"
        for names, description in (entry for section in sections for entry in _entries(section)):
            for name in names:
                target = _resolved(name, documented.names, document_of)
                if target is None:
                    unresolved.append((documented.doc_id, name))
                else:
                    targets.setdefault(description, set()).add(target)
    queries = {_query_id(text): text for text in sorted(targets) if len(targets[text]) <= _MOST_ANSWERS}
    answers = {qid: sorted(targets[text]) for qid, text in queries.items()}
    split_of = _divided(answers, random_state)
    qrels: dict[str, dict[str, dict[str, int]]] = {split: {} for split in SPLITS}
    for qid, doc_ids in answers.items():
        qrels[split_of[qid]][qid] = dict.fromkeys(doc_ids, 1)
    return DocstringCollection(docs=docs, queries=queries, qrels=qrels, skipped=skipped, unresolved=tuple(unresolved))


# Walking


@dataclass
class _Documented:
    """One documented object and its public names, the one to call it by first."""

    docstring: str
    names: list[str]

    @property
    def doc_id(self) -> str:
        return self.names[0]


def _public_modules(packages: Sequence[str]) -> tuple[list[types.ModuleType], dict[str, str]]:
    """Import every public module; return them and those that failed, with the reason."""
    modules: list[types.ModuleType] = []
    skipped: dict[str, str] = {}
    waiting = sorted(set(packages), reverse=True)
    while waiting:
        name = waiting.pop()
        try:
            # A module may warn that it is old, and whoever asked for the collection did not import it.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = importlib.import_module(name)
        except (Exception, SystemExit) as error:  # whatever its code raises
            if name in packages:
                raise InputError(f"packages names {name!r}, which cannot be imported: {error!r}") from error
            skipped[name] = f"{type(error).__name__}: {error}"
            continue
        modules.append(module)
        inside = [info.name for info in pkgutil.iter_modules(vars(module).get("__path__", []))]
        public = [part for part in inside if not part.startswith("_") and part not in _NOT_DOCUMENTATION]
        waiting.extend(f"{name}.{part}" for part in sorted(public, reverse=True))
    return modules, skipped


def _public_objects(modules: list[types.ModuleType]) -> list[_Documented]:
    """Every documented function, class and method once, in the order of their names."""
    roots = {module.__name__.partition(".")[0] for module in modules}
    objects: dict[int, _Documented] = {}  # by identity: one object, one document
    inherited: set[str] = set()
    for module in modules:
        for name, thing in _module_members(module, roots):
            _add(objects, thing, name)
            if isinstance(thing, type):
                for method_name, method, is_inherited in _methods(thing, roots):
                    method_name = f"{name}.{method_name}"
                    _add(objects, method, method_name)
                    if is_inherited:
                        inherited.add(method_name)
    for documented in objects.values():
        documented.names = sorted(set(documented.names), key=lambda name: (name in inherited, len(name), name))
    return sorted(objects.values(), key=lambda documented: documented.doc_id)


def _add(objects: dict[int, _Documented], thing: object, name: str) -> None:
    docstring = getattr(thing, "__doc__", None)
    if not isinstance(docstring, str) or not docstring.strip():
        return
    objects.setdefault(id(thing), _Documented(_settled(inspect.cleandoc(docstring)), [])).names.append(name)


def _settled(docstring: str) -> str:
    """A docstring without what differs from one process to the next.

    SciPy writes some of its docstrings while it is imported, with random numbers in examples, which it marks
    "may vary", and with sets of names, whose order follows the hash seed.
    """
    lines = [line for line in docstring.splitlines() if not line.endswith("# may vary")]
    return _SET_OF_STRINGS.sub(lambda match: f"{{{', '.join(sorted(match[1].split(', ')))}}}", "\n".join(lines))


def _module_members(module: types.ModuleType, roots: set[str]) -> Iterator[tuple[str, object]]:
    """Dotted name and object for the classes and callables that a module gives out."""
    members = vars(module)
    given_out = members.get("__all__")
    for name in sorted(set(members if given_out is None else given_out)):
        if name.startswith("_") or name not in members:
            continue
        thing = _unbound(members[name])
        if not callable(thing) or isinstance(thing, types.GenericAlias):
            continue
        # scipy.stats.ortho_group is the only instance of its class and has its docstring.
        if not (_has_own_docstring(thing) or _root(type(thing)) in roots):
            continue
        # Without __all__, what a module merely imported for its own use is not its to give out.
        home = getattr(thing, "__module__", None) or ""
        if given_out is None and not f"{home}.".startswith(f"{module.__name__}."):
            continue
        yield f"{module.__name__}.{name}", thing


def _has_own_docstring(thing: object) -> bool:
    """Whether its docstring is about itself and not about the kind of object it is."""
    return isinstance(thing, type) or thing.__doc__ != type(thing).__doc__


def _root(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _unbound(thing: object) -> object:
    """The method itself for a method of a hidden instance, as numpy.random.normal is one of RandomState."""
    owner = getattr(thing, "__self__", None)
    if isinstance(thing, types.MethodType):
        return thing.__func__
    if isinstance(thing, types.BuiltinMethodType) and not isinstance(owner, (types.ModuleType, type, type(None))):
        return getattr(type(owner), thing.__name__)
    return thing


def _methods(cls: type, roots: set[str]) -> Iterator[tuple[str, object, bool]]:
    """The public methods of a class and whether each is inherited, which must be from these packages."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if _root(base) not in roots:
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            is_method = inspect.isroutine(member) and not isinstance(member, cached_property)
            if is_method and _has_own_docstring(member):
                yield name, member, base is not cls


# "See Also" sections


def _without_see_also(docstring: str) -> tuple[str, list[list[str]]]:
    """A docstring's text without its "See Also" sections, and their lines."""
    kept: list[str] = []
    sections: list[list[str]] = []
    lines = docstring.splitlines()
    inside = False
    i = 0
    while i < len(lines):
        is_header = i + 1 < len(lines) and bool(lines[i].strip()) and _UNDERLINE.fullmatch(lines[i + 1])
        if is_header and lines[i].strip().lower() == "see also":
            inside = True
            sections.append([])
            i += 2
            continue
        if is_header or lines[i].startswith(".. "):
            inside = False
        (sections[-1] if inside else kept).append(lines[i])
        i += 1
    return "\n".join(kept).strip(), sections


def _entries(lines: list[str]) -> Iterator[tuple[list[str], str]]:
    """The names and the description of each entry that has one.

    A line that is no entry is given as a name, with a description, so that it counts as unresolved.
    """
    names: list[str] = []
    description: list[str] = []
    for line in [
        *textwrap.dedent("\n".join(lines)).splitlines(),
        "the end",
    ]:  # which gives out the last entry
        if not line.strip():
            continue
        if line[0].isspace():
            description.append(line)
            continue
        whole = " ".join(" ".join(description).split())
        if re.search(r"\w", whole):  # SciPy puts ".." where there is none
            yield names, whole
        entry = _ENTRY.fullmatch(line.strip())
        if entry is None:
            names, description = [line.strip()], [line]
        else:
            bare = _ROLE.sub("", entry["names"]).replace("`", "").replace("~", "")
            names, description = [name.strip() for name in bare.split(",")], [entry["description"] or ""]


def _resolved(name: str, names: list[str], document_of: Mapping[str, str]) -> str | None:
    """The document that a name means in the docstring of the object called `names`.

    Looked for in the object's class, its module, the packages around it, and as it stands.
    """
    for own_name in names:
        around = own_name
        while around := around.rpartition(".")[0]:
            if (doc_id := document_of.get(f"{around}.{name}")) is not None:
                return doc_id
    return document_of.get(name)


# Queries


def _query_id(text: str) -> str:
    return f"q{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"


def _divided(answers: Mapping[str, list[str]], random_state: int) -> dict[str, str]:
    """The split of each query; queries with an answer in common, even through others, share theirs."""
    groups = _connected(answers)
    np.random.default_rng(random_state).shuffle(groups)
    groups.sort(key=len, reverse=True)  # the small ones then even out what the large ones did
    split_of: dict[str, str] = {}
    lacking = {split: share * len(answers) for split, share in SPLITS.items()}
    for group in groups:
        split = max(lacking, key=lambda split: lacking[split] / SPLITS[split])
        lacking[split] -= len(group)
        split_of.update(dict.fromkeys(group, split))
    return split_of


def _connected(answers: Mapping[str, list[str]]) -> list[list[str]]:
    """Query ids in groups that have no answer in common."""
    asking: dict[str, list[str]] = {}
    for qid, doc_ids in answers.items():
        for doc_id in doc_ids:
            asking.setdefault(doc_id, []).append(qid)
    groups: list[list[str]] = []
    reached: set[str] = set()
    for first in answers:
        if first in reached:
            continue
        group = [first]
        reached.add(first)
        for qid in group:  # grows while it is walked
            for neighbour in (other for doc_id in answers[qid] for other in asking[doc_id]):
                if neighbour not in reached:
                    reached.add(neighbour)
                    group.append(neighbour)
        groups.append(group)
    return groups
