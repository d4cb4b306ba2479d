"""The collection of docstrings: what becomes a document, what a query, and how queries are divided."""

from __future__ import annotations

import sys
import textwrap

import pytest

from tercet.cli.docstrings import (
    _SEE_ALSO,
    _entries,
    _resolved,
    _settled,
    docstring_collection,
)

PACKAGE = {
    "__init__": """
        from larder._impl import Ov, Oven, Shelf, bake, fry, scale
        from larder._impl import oven as _oven
        clean = _oven.clean
        __all__ = ["Ov", "Oven", "bake", "fry", "clean", "scale", "Shelf", "missing", "NUMBER", "_hidden"]
        NUMBER = 3
        _hidden = bake
    """,
    "_impl": '''
        from functools import cached_property

        def bake():
            """Heat in dry air.

            See Also
            --------
            fry : Heat in oil.
            Oven.preheat : Make it hot before the food goes in.
            tools.knife, larder.tools.fork
                Something to eat with.
            nowhere : Not to be found.
            grill.strange! entry
            clean

            Notes
            -----
            Takes long.
            """

        def fry():
            """Heat in oil or fat.

            See Also
            --------
            bake : Heat in dry air.
            """

        class Wrapper:
            """Not about the thing it wraps."""

            def __get__(self, instance, owner):
                return self

        class Scale:
            """Weigh something; there is only one of these."""

            def __call__(self):
                pass

        scale = Scale()
        Shelf = list[int]

        class Base:
            def preheat(self):
                """Warm up.

                See Also
                --------
                cool : The other way.
                bake : Heat in dry air.
                """

            def hidden(self):
                pass

        class Oven(Base, dict):
            """A hot box.

            See Also
            --------
            Ov.make : Build one there.
            """

            color = property(lambda self: 1, doc="Not a method.")
            size = cached_property(len)
            rack = Wrapper()

            @staticmethod
            def cool():
                """Let heat out."""

            @classmethod
            def make(cls):
                """Build one."""

            def clean(self):
                """Scrub it."""

            def _secret(self):
                """Nobody's business."""

        class Ov(Oven):
            """A small oven."""

        oven = Oven()
    ''',
    "tools": '''
        import os.path
        from os.path import join
        from larder._impl import bake

        def knife():
            """Cuts."""

        def fork():
            """Stabs.

            See Also
            --------
            :func:`knife` : Has a blade and
                no prongs.
            `~larder.Oven`: A place to be.
            """
    ''',
    "broken": "raise RuntimeError('out of gas')",
    "leaving": "import sys; sys.exit(3)",
    "old": """
        import warnings
        warnings.warn("old is old", DeprecationWarning)
        __all__ = ["bake"]
        def __getattr__(name):
            raise AssertionError("looked up " + name)
    """,
    "sub.__init__": """
        from larder._impl import bake
        __all__ = ["bake", "cook"]
        cook = bake
    """,
    "tests.__init__": "raise AssertionError('tests were imported')",
    "conftest": "raise AssertionError('conftest was imported')",
    "_private": "raise AssertionError('a private module was imported')",
}


@pytest.fixture
def larder(tmp_path, monkeypatch):
    for name, code in PACKAGE.items():
        path = tmp_path / "larder" / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(code), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "larder"]:
        del sys.modules[name]


def answers_by_text(collection):
    judged = {qid: docs for split in collection.qrels.values() for qid, docs in split.items()}
    return {collection.queries[qid]: docs for qid, docs in judged.items()}


class TestSyntheticPackage:
    def test_documents(self, larder):
        docs = docstring_collection(["larder"]).docs
        assert list(docs) == [
            "larder.Ov",
            "larder.Ov.preheat",  # from a private class, so under the shortest name of a subclass
            "larder.Oven",
            "larder.Oven.cool",  # not larder.Ov.cool, which is shorter but only inherits it
            "larder.Oven.make",
            "larder.bake",  # not larder.sub.bake, larder.sub.cook or larder.tools.bake
            "larder.clean",  # the bound method is larder.Oven.clean
            "larder.fry",
            "larder.scale",
            "larder.tools.fork",
            "larder.tools.knife",
        ]
        assert docs["larder.bake"] == "bake\nHeat in dry air.\n\nNotes\n-----\nTakes long."
        assert docs["larder.Oven.cool"] == "cool\nLet heat out."
        assert docs["larder.tools.fork"] == "fork\nStabs."

    def test_queries(self, larder):
        assert answers_by_text(docstring_collection(["larder"])) == {
            "A place to be.": {"larder.Oven": 1},
            "Build one there.": {"larder.Oven.make": 1},
            "Has a blade and no prongs.": {"larder.tools.knife": 1},
            "Heat in dry air.": {"larder.bake": 1},  # said in two places
            "Heat in oil.": {"larder.fry": 1},
            "Make it hot before the food goes in.": {"larder.Ov.preheat": 1},
            "Something to eat with.": {"larder.tools.fork": 1, "larder.tools.knife": 1},
            "The other way.": {"larder.Oven.cool": 1},
        }

    def test_same_again_and_ids_depend_on_the_text_alone(self, larder):
        first, second = docstring_collection(["larder"]), docstring_collection(["larder"], random_state=1)
        assert first == docstring_collection(["larder"])
        assert first.queries == second.queries
        assert list(first.queries) == list(second.queries)
        assert len(set(first.queries.values())) == len(first.queries)


def test_a_package_that_is_not_there():
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        docstring_collection(["no_such_package"])


def test_what_varies_between_processes_is_settled():
    text = ">>> draw()\narray([0.51])  # may vary\nUse {'b', 'a', 'c'} but {'b': 1} and {b, a}."
    assert _settled(text) == ">>> draw()\nUse {'a', 'b', 'c'} but {'b': 1} and {b, a}."


class TestSeeAlso:
    @pytest.mark.parametrize(
        ("section", "expected"),
        [
            ("a : one thing", [("a", "one thing")]),
            ("a: one thing", [("a", "one thing")]),
            ("a.b, c : both", [("a.b", "both"), ("c", "both")]),
            ("a", []),
            ("a, b", []),
            ("a :", []),
            ("a\n    below\n    and on\nb : next", [("a", "below and on"), ("b", "next")]),
            ("a : starts\n\n    and goes  on", [("a", "starts and goes on")]),
            ("\n\na : one\n\nb : two\n\n", [("a", "one"), ("b", "two")]),
            ("    a : indented\n        more\n    b : too", [("a", "indented more"), ("b", "too")]),
            (":func:`a` : one", [("a", "one")]),
            (":py:meth:`~x.y.a`, `b`, c : three", [("x.y.a", "three"), ("b", "three"), ("c", "three")]),
            (":func:`a`, :func:`b`\n    ..", []),
            ("a : ratio x:y, see :func:`b`", [("a", "ratio x:y, see :func:`b`")]),
            ("not an entry!\n    more of it\na : one", [("a", "one")]),
            ("", []),
        ],
    )
    def test_entries(self, section, expected):
        assert list(_entries(section)) == expected

    def test_section_is_cut_out_wherever_it_stands(self):
        text = "Sum.\n\n{}Notes\n-----\nN.\n\n{}.. index:: x\nrest\n{}"
        section = "See Also\n--------\na : one\n\n"
        docstring = text.format(section, section.replace("Also", "also"), section)
        assert _SEE_ALSO.sub("", docstring).strip() == text.format("", "", "").strip()
        assert [list(_entries(found["entries"])) for found in _SEE_ALSO.finditer(docstring)] == [[("a", "one")]] * 3

    def test_nearest_name_wins(self):
        names = ["p.C.run", "p.run", "run", "p.q.run", "q.D.run"]
        document_of = {name: name for name in names}
        assert _resolved("run", ["p.C.go"], document_of) == "p.C.run"
        assert _resolved("run", ["p.q.go"], document_of) == "p.q.run"
        assert _resolved("run", ["p.z.go"], document_of) == "p.run"
        assert _resolved("run", ["x.go"], document_of) == "run"
        assert _resolved("D.run", ["p.go"], document_of) is None
        assert _resolved("D.run", ["p.go", "q.E.go"], document_of) == "q.D.run"


@pytest.fixture(scope="module")
def collection():
    return docstring_collection(["numpy"])


class TestNumpy:
    @pytest.mark.slow
    def test_known_documents(self, collection):
        for doc_id in (
            "numpy.sum",
            "numpy.add",
            "numpy.ndarray.sum",
            "numpy.linalg.norm",
            "numpy.random.normal",
        ):
            assert doc_id in collection.docs
        assert 1000 < len(collection.docs) < 3000
        assert not any("._" in doc_id or ".tests." in doc_id for doc_id in collection.docs)
        # The same method as numpy.random.normal, under a longer name.
        assert "numpy.random.RandomState.normal" not in collection.docs
        assert list(collection.docs) == sorted(collection.docs)

    def test_a_known_answer(self, collection):
        assert "numpy.ndarray.sum" in answers_by_text(collection)["Equivalent method."]
