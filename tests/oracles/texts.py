"""Texts and files: what is read, drawn, ranked and expanded."""

from __future__ import annotations

import numpy as np


def ranking(scores):
    """Rows from best to worst; ties by lower row."""
    return sorted(range(len(scores)), key=lambda d: (-scores[d], d))


def query_expansion(q, D, beta, n_expanded):
    """Bai et al. 2010, section 4: q + beta times the sum of the E best documents; one without a common word is none."""
    scores = D @ q
    best = [d for d in ranking(scores)[:n_expanded] if scores[d] > 0]
    return q + beta * D[best].sum(axis=0)


def rm3(q, D, counts, query_weight, n_found, n_terms, original_weight):
    """Abdul-Jaleel et al. 2004, word by word, with the retrieval score in place of the likelihood of the query."""
    scores = D @ q
    words = q / query_weight
    own = words / words.sum() if words.any() else words
    relevance = np.zeros(len(q))
    for d in ranking(scores)[:n_found]:
        if scores[d] > 0:
            for w in range(len(q)):
                relevance[w] += scores[d] * counts[d, w] / counts[d].sum()
    if not relevance.any():
        return own * query_weight
    for w in ranking(relevance)[n_terms:]:
        relevance[w] = 0
    return (original_weight * own + (1 - original_weight) * relevance / relevance.sum()) * query_weight


def svmlight_rows(text):
    """(target, qid or None, {feature id: value}, comment) of each line of ASCII; ValueError where one is wrong."""
    rows = []
    for line in text.split("\n"):
        body, _, comment = line.partition("#")
        tokens = body.split()
        if not tokens:
            continue
        target = float(tokens.pop(0))
        qid = tokens.pop(0)[4:] if tokens and tokens[0].startswith("qid:") else None
        ids, values = [], []
        for token in tokens:
            key, value = token.split(":")
            if key != key.strip("+-"):
                raise ValueError(f"{token} has a sign")
            ids.append(int(key))
            values.append(float(value))
        if ids != sorted(set(ids)) or min(ids, default=1) < 1 or qid == "" or not np.isfinite([target, *values]).all():
            raise ValueError(line)
        rows.append((target, qid, dict(zip(ids, values, strict=True)), comment.strip()))
    if len({qid is None for _, qid, _, _ in rows}) > 1:
        raise ValueError("some lines have a qid and some have none")
    return rows


def drawn_shares(grades, n_docs, popular=0.0, uniform_over="queries", itself=False, absent=()):
    """Probability of each preference (query, better, worse): the better one by query or judgement, the worse one of
    those of a lower grade, uniformly or, for a share of them, as often as each is the better one."""
    lower = {}
    for q, judged in grades.items():
        others = [d for d in range(n_docs) if d not in absent and not (itself and d == q)]
        for b in others:
            worse = [w for w in others if judged.get(w, 0) < judged.get(b, 0)]
            if judged.get(b, 0) > 0 and worse:
                lower[q, b] = worse
    better = {}
    for q, b in lower:
        n_same = sum(query == q for query, _ in lower)
        n_queries = len({query for query, _ in lower})
        better[q, b] = 1 / len(lower) if uniform_over == "judgements" else 1 / n_queries / n_same
    popularity = np.zeros(n_docs)
    for (_, b), share in better.items():
        popularity[b] += share
    drawn = np.zeros((max(grades) + 1, n_docs, n_docs))
    for (q, b), worse in lower.items():
        uniform = np.zeros(n_docs)
        uniform[worse] = 1 / len(worse)
        by_popularity = np.zeros(n_docs)
        by_popularity[worse] = popularity[worse]
        by_popularity = by_popularity / by_popularity.sum() if by_popularity.any() else uniform
        drawn[q, b] = better[q, b] * (popular * by_popularity + (1 - popular) * uniform)
    return drawn
