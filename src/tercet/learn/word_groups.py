"""Groups of words that a penalty shrinks together: a tree of them, or groups that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.utils.extmath import randomized_svd

from tercet._validate import check_integer
from tercet.data.mapped_rows import Texts
from tercet.data.shards import StoredRows
from tercet.errors import InputError
from tercet.kernels.grouped import GroupTrees, shrink_sizes
from tercet.learn.stored import leading_directions
from tercet.store.schema import Bounds, Shape

_LATENT = 100  # directions of the documents that words are clustered in
_PASSES = 50  # of k-means
SEPARATOR = "/"  # between the groups of a path


@dataclass(frozen=True, eq=False)
class WordGroups:
    """Groups of words, by column; they may lie within each other, overlap, or leave words out.

    Parameters
    ----------
    n_words : columns of the matrix
    members : the words of all groups, one group after the other
    ends : where each group ends in ``members``
    weight : what the norm of each group counts beside those of the others
    names : of the groups

    Notes
    -----
    A penalty ``Σ weight ||W_g||`` over groups g within each other, a tree, has an exact proximal step in one pass over
    words and groups. Overlapping groups are dealt out to as few trees as a greedy order finds, which are taken in turn
    until they agree. A word of several groups is zero as soon as one of them is (the penalty of Zhao et al. 2009 and
    Jenatton et al. 2011, not the latent one of Jacob et al. 2009).

    Examples
    --------
    >>> groups = WordGroups.from_paths(["sport/hockey", "sport/hockey", "sport/baseball", "space", None])
    >>> groups
    WordGroups(5 words, 4 groups, 2 deep)
    >>> groups.words_of(groups.names.index("sport"))
    array([0, 1, 2], dtype=int32)
    """

    n_words: Annotated[int, Bounds(least=1, below=2**31)]
    members: Annotated[NDArray[np.int32], Shape("n_members")]
    ends: Annotated[NDArray[np.int64], Shape("n_groups")]
    weight: Annotated[NDArray[np.float64], Shape("n_groups")]
    names: tuple[str, ...]
    _forests: list[tuple[NDArray[np.int32], NDArray[np.intp]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sizes = np.diff(self.ends, prepend=0)
        if len(self.names) != self.ends.size:
            raise InputError(f"{self.ends.size} groups have {len(self.names)} names")
        if np.any(sizes <= 0) or (self.ends[-1] if self.ends.size else 0) != self.members.size:
            raise InputError("a group has no word, or the groups do not end where their words do")
        if self.members.size and not (self.members.min() >= 0 and self.members.max() < self.n_words):
            raise InputError(f"a group has a word that is not one of the {self.n_words} columns")
        if not (np.isfinite(self.weight).all() and np.all(self.weight >= 0)):
            raise InputError("the weight of a group is not a number, or below zero")
        owner = np.repeat(np.arange(sizes.size), sizes)
        if np.unique(np.stack([owner, self.members]), axis=1).shape[1] != owner.size:
            raise InputError("a group has a word twice")
        object.__setattr__(self, "_forests", _forests_of(self))

    def __len__(self) -> int:
        return self.ends.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WordGroups) and (
            (self.n_words, self.names) == (other.n_words, other.names)
            and np.array_equal(self.members, other.members)
            and np.array_equal(self.ends, other.ends)
            and np.array_equal(self.weight, other.weight)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shape = f"{self.depth} deep" if self.is_tree else f"overlapping, in {len(self._forests)} trees"
        return f"WordGroups({self.n_words} words, {len(self)} groups, {shape})"

    @property
    def is_tree(self) -> bool:
        """Whether no two groups overlap without one lying within the other."""
        return len(self._forests) < 2

    @property
    def depth(self) -> int:
        """The most groups that lie within each other in a tree."""
        return max((_depth(parent) for parent, _ in self._forests), default=0) - 1 if len(self) else 0

    def words_of(self, group: int) -> NDArray[np.int32]:
        """The columns of a group."""
        return self.members[self.ends[group - 1] if group else 0 : self.ends[group]]

    def counts(self, words: ArrayLike) -> NDArray[np.int64]:
        """How many of these words each group has."""
        among = np.zeros(self.n_words, dtype=np.int64)
        among[np.asarray(words, dtype=np.intp)] = 1
        return np.diff(np.concatenate(([0], np.cumsum(among[self.members])))[self.ends], prepend=0)

    def trees(self, word_share: float) -> GroupTrees:
        """The groups as the kernel wants them: words have this share of the penalty, groups have the rest."""
        n = self.n_words
        everything = np.arange(n, dtype=np.int32)
        no_group = np.full(n, -1, dtype=np.int32), np.empty(0, dtype=np.intp)
        lines, parents, weights = [], [], []
        for number, (parent, groups) in enumerate(self._forests or [no_group]):
            line = everything if number == 0 else everything[parent[:n] >= 0]
            moved = np.where(parent >= 0, parent - np.int32(n - line.size), np.int32(-1))  # groups follow these lines
            lines.append(line)
            parents.append(np.concatenate((moved[line], moved[n:])))
            own = np.full(line.size, word_share if number == 0 else 0.0)
            weights.append(np.concatenate((own, (1 - word_share) * self.weight[groups])))
        line = np.concatenate(lines)
        return GroupTrees(
            first=np.cumsum([0, *(weight.size for weight in weights)]),
            parent=np.concatenate(parents),
            weight=np.concatenate(weights),
            first_line=np.cumsum([0, *(line.size for line in lines)]),
            line=line,
            correction=np.empty(line.size),
            factor=np.empty(max(weight.size for weight in weights)),
            part=np.empty(n),
            size=np.empty(n),
            before=np.empty(n),
        )

    def shrink(self, norms: ArrayLike, amount: float, word_share: float = 0.0) -> NDArray[np.float64]:
        """Norms of words after the proximal step of ``amount`` times the penalty.

        Examples
        --------
        >>> WordGroups.from_groups(3, [[0, 1], [0, 1, 2]], weight=[1.0, 2.0]).shrink([3.0, 4.0, 0.0], 1.0)
        array([1.2, 1.6, 0. ])
        """
        trees = self.trees(word_share)
        trees.size[:] = norms
        shrink_sizes(trees, float(amount))
        return trees.size

    # -- making them --------------------------------------------------------------------------------------------------

    @classmethod
    def from_groups(
        cls,
        n_words: int,
        groups: Iterable[ArrayLike],
        *,
        weight: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Groups as lists of columns.

        The weight of a group is the root of its number of words unless it is given, over the depth of the tree, so
        that a word is pulled by all groups around it as by one.
        """
        columns = [_integers(group, "the columns of a group") for group in groups]
        # What is no column must not become one in 32 bits.
        members = np.clip(np.concatenate([*columns, np.empty(0, dtype=np.int64)]), -1, n_words).astype(np.int32)
        sizes = np.array([group.size for group in columns], dtype=np.int64)
        names = tuple(str(number) for number in range(sizes.size)) if names is None else tuple(names)
        stated = np.sqrt(sizes) if weight is None else np.asarray(weight, dtype=np.float64)
        if stated.shape != sizes.shape:
            raise InputError(f"{sizes.size} groups have {stated.size} weights")
        made = cls(n_words, members, np.cumsum(sizes), stated, names)
        return made if weight is not None else replace(made, weight=stated / max(made.depth, 1))

    @classmethod
    def from_paths(cls, paths: Sequence[Any]) -> Self:
        """A path of groups for each word, such as ``"sport/hockey"``; several for one in several, None for none."""
        groups: dict[str, dict[int, None]] = {}
        for word, stated in enumerate(paths):
            for path in [stated] if isinstance(stated, str) else stated or []:
                if not isinstance(path, str):
                    raise InputError(f"a word's groups are paths such as 'sport/hockey'; got {path!r}")
                parts = [part.strip() for part in path.split(SEPARATOR) if part.strip()]
                for length in range(1, len(parts) + 1):
                    groups.setdefault(SEPARATOR.join(parts[:length]), {})[word] = None
        if not groups:
            raise InputError("no word has a group")
        return cls.from_groups(len(paths), [list(words) for words in groups.values()], names=list(groups))

    @classmethod
    def from_parents(cls, parents: ArrayLike, n_words: int) -> Self:
        """A tree by the parent of each node, -1 for a root; the first ``n_words`` nodes are the words.

        Examples
        --------
        >>> tree = WordGroups.from_parents([3, 3, 4, 4, -1], n_words=3)  # ((0, 1), 2)
        >>> [tree.words_of(group).tolist() for group in range(len(tree))]
        [[0, 1], [0, 1, 2]]
        """
        parent = _integers(parents, "parents")
        if parent.size < n_words or np.any(parent < -1) or np.any(parent >= parent.size):
            raise InputError(f"parents are numbers of {parent.size} nodes, or -1; {n_words} of them are words")
        if np.any((parent >= 0) & (parent < n_words)):
            raise InputError("a word is the parent of a node; words are leaves")
        groups: dict[int, list[int]] = {}
        for word in range(n_words):
            node, steps = int(parent[word]), 0
            while node >= 0:
                groups.setdefault(node, []).append(word)
                node, steps = int(parent[node]), steps + 1
                if steps > parent.size:
                    raise InputError(f"the parents of word {word} go round in a circle")
        nodes = sorted(groups)
        return cls.from_groups(n_words, [groups[node] for node in nodes], names=[str(node) for node in nodes])

    @classmethod
    def from_clusters(
        cls, texts: Texts, n_clusters: int | Sequence[int], *, clusters_of_word: int = 1, random_state: int = 0
    ) -> Self:
        """Clusters of the words that occur in the same texts.

        Words are their vectors in latent semantic indexing, scaled to length 1, and k-means makes the most clusters
        that are asked for; fewer ones are cuts of Ward's tree over the means of these, so that all lie within each
        other. With ``clusters_of_word`` above 1 each word belongs to so many of the nearest ones, which then overlap.
        """
        stated = np.atleast_1d(np.asarray(n_clusters, dtype=object))
        wanted = sorted({check_integer(n, "n_clusters") for n in stated}, reverse=True)
        if not wanted:
            raise InputError("n_clusters is empty; it must be a number of clusters, or several")
        check_integer(clusters_of_word, "clusters_of_word")
        vectors = _word_vectors(texts, random_state)
        known = np.flatnonzero(vectors.any(axis=1))
        if not known.size:
            raise InputError("no text has a word; there is nothing to cluster")
        means, nearest = _clustered(vectors[known], min(wanted[0], known.size), clusters_of_word, random_state)
        finest = [known[(nearest == cluster).any(axis=1)] for cluster in range(len(means))]
        groups = {f"{len(finest)}.{number}": words for number, words in enumerate(finest) if words.size}
        tree = linkage(means, "ward") if len(means) > 1 else None
        for n in wanted[1:]:
            if n >= len(finest) or tree is None:
                continue
            label = fcluster(tree, n, criterion="maxclust")
            for number in np.unique(label):
                joined = [finest[cluster] for cluster in np.flatnonzero(label == number)]
                groups[f"{n}.{number - 1}"] = np.unique(np.concatenate(joined))
        return cls.from_groups(texts.shape[1], list(groups.values()), names=list(groups))


def as_word_groups(tree: Any, n_words: int) -> WordGroups:
    """What a ranker was given, for a matrix of so many columns."""
    if isinstance(tree, Mapping | str):
        raise InputError(
            "tree names words, whose columns tc.fit knows; a ranker of matrices takes WordGroups, or a path of groups "
            "for each column"
        )
    groups = tree if isinstance(tree, WordGroups) else WordGroups.from_paths(tree)
    if groups.n_words != n_words:
        raise InputError(f"tree has groups of {groups.n_words} words; this side of W has {n_words}")
    return groups


def _integers(values: ArrayLike, what: str) -> NDArray[np.int64]:
    """The values as int64 in one row; floats would be cut, and a mask taken for columns 0 and 1."""
    array = np.asarray(values).ravel()
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{what} must be integers; got {array.dtype}, as in {array[0]!r}")
    return array.astype(np.int64)


def _forests_of(groups: WordGroups) -> list[tuple[NDArray[np.int32], NDArray[np.intp]]]:
    """Forests that hold all groups once: the parents of words and groups, and which groups these are."""
    sizes = np.diff(groups.ends, prepend=0)
    owners: list[NDArray[np.intp]] = []  # by forest: the smallest group so far around each word; -1 for none
    held: list[list[tuple[int, int]]] = []  # by forest: its groups, each with the one around it
    for group in np.argsort(-sizes, kind="stable").tolist():
        words = groups.words_of(group)
        # Larger ones came before: where all its words have the same owner, it lies within that or apart from all.
        fits = (place for place, owner in enumerate(owners) if np.all(owner[words] == owner[words[0]]))
        place = next(fits, len(owners))
        if place == len(owners):
            owners.append(np.full(groups.n_words, -1, dtype=np.intp))
            held.append([])
        held[place].append((group, int(owners[place][words[0]])))
        owners[place][words] = group
    forests = []
    for owner, inside in zip(owners, held, strict=True):
        own, around = np.array(inside[::-1], dtype=np.intp).T  # parents after their children
        node = np.full(len(groups) + 1, -1, dtype=np.int32)  # the last is that of no group
        node[own] = groups.n_words + np.arange(own.size, dtype=np.int32)
        forests.append((node[np.concatenate((owner, around))], own))
    return forests


def _depth(parent: NDArray[np.int32]) -> int:
    """Nodes of the longest path, words included."""
    depth = np.ones(parent.size + 1, dtype=np.int64)  # the last is nobody's
    for node in range(parent.size - 1, -1, -1):
        if parent[node] >= 0:
            depth[node] = depth[parent[node]] + 1
    return int(depth[:-1].max())


def _word_vectors(texts: Texts, seed: int) -> NDArray[np.float64]:
    """Words in the leading directions of the texts, of length 1; zero for those of no text."""
    n = min(_LATENT, *texts.shape)
    seed = int(seed) % 2**32
    if isinstance(texts, StoredRows):
        size, directions = leading_directions(texts, n, n_iter=3, seed=seed)
    else:
        _, size, directions = randomized_svd(sparse.csr_array(texts), n, n_iter=3, random_state=seed)
    vectors = (size[:, None] * directions).T
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    is_rounding = length <= np.finfo(np.float32).eps * length.max(initial=0)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=~is_rounding)


def _clustered(
    vectors: NDArray[np.float64], n_clusters: int, clusters_of_word: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Means of clusters, and the nearest of them to each vector (n, clusters_of_word)."""
    from sklearn.cluster import KMeans

    # On several threads sums are taken in the order in which these end.
    with import_module("threadpoolctl").threadpool_limits(1):
        found = KMeans(n_clusters, n_init=1, max_iter=_PASSES, random_state=int(seed) % 2**32).fit(vectors)
        if clusters_of_word == 1:
            return found.cluster_centers_, found.labels_[:, None].astype(np.intp)
        distance = found.transform(vectors)
    return found.cluster_centers_, np.argsort(distance, axis=1, kind="stable")[:, :clusters_of_word]
