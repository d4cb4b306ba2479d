"""What a service learns from a journal, by plain Python: questions in the order of last votes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tercet.serve.allowances import Voter
from tercet.serve.journal import Clicked, Preferred, Renewed, Withdrawn, seconds_of
from tercet.serve.networks import site
from tercet.serve.votes import ONE_CLICK, votes_of
from tercet.weights.value import unit_of


def taught(index, entries, bounds):
    """The overlay (n_terms, n_terms), and of each step its share, in their order."""
    learned = Learned(index, bounds)
    learned.take(entries, in_order(questions_of(index, entries, bounds), bounds))
    return learned.W, list(learned.shares.values())


def interim(index, entries, portions, bounds):
    """What is served after portions of entries that came when others were learned, and are not in their places yet.

    The steps of questions that a portion changes are taken out, and are taken anew on top of all others.
    """
    learned = Learned(index, bounds)
    before = questions_of(index, entries, bounds)
    learned.take(entries, in_order(before, bounds))
    for portion in portions:
        entries = [*entries, *portion]
        after = questions_of(index, entries, bounds)
        asked = set(questions_of(index, [entry for entry in portion if not isinstance(entry, Withdrawn)], bounds))
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} | asked
        learned.take_out(changed)
        learned.take(entries, in_order({key: after[key] for key in changed & after.keys()}, bounds))
        before = after
    return learned.W


def questions_of(index, entries, bounds):
    """By query and documents: the text of the query, and all votes that count."""
    gone = {number for entry in entries if isinstance(entry, Withdrawn) for number in entry.entries}
    questions = {}
    for entry in entries:
        if isinstance(entry, (Preferred, Clicked)) and entry.number not in gone:
            row = index.model.queries([entry.query])
            query = (row.indices.tobytes(), row.data.tobytes()) if row.nnz else entry.query
            for vote in votes_of(entry, bounds):
                first, second = sorted((vote.better, vote.worse))
                sign = 1 if vote.better == first else -1
                questions.setdefault((query, first, second), (entry.query, []))[1].append((entry, sign * vote.parts))
    return questions


def in_order(questions, bounds):
    """The same by last votes, which are in the order in which their entry casts them."""

    def position(key):
        entry = questions[key][1][-1][0]
        pairs = [tuple(sorted((vote.better, vote.worse))) for vote in votes_of(entry, bounds)]
        return entry.number, pairs.index(key[1:])

    return {key: questions[key] for key in sorted(questions, key=position)}


class Learned:
    """Steps that were taken, and what is left of allowances."""

    def __init__(self, index, bounds):
        self.index, self.bounds, self.unit = index, bounds, unit_of(index.model.weights)
        self.W = np.zeros(index.model.weights.shape)
        self.purses, self.asked, self.agreed, self.shares, self.steps = {}, Counter(), Counter(), {}, {}

    def take(self, entries, questions):
        """A step for each question, in this order."""
        renewals = [entry.number for entry in entries if isinstance(entry, Renewed)]
        spent = self.purses, self.asked, self.agreed, renewals
        for key, (text, votes) in questions.items():
            voters = by_voter(votes, int(self.bounds.preference * ONE_CLICK))
            net = sum(voters.values())
            q = self.index.model.queries([text])
            if not q.nnz or not net or key[1] not in self.index or key[2] not in self.index:
                continue
            change = step_of(self.index, q, key[1:], net, voters, self.W, self.bounds, self.unit)
            self.shares[key] = 0.0
            if change is not None:
                asking = {voter: abs(parts) for voter, parts in voters.items() if (parts > 0) == (net > 0) and parts}
                self.shares[key] = paid(np.abs(change).sum(), asking, votes[-1][0], self.bounds, self.unit, *spent)
                self.steps[key] = self.shares[key] * change
                self.add(self.steps[key])

    def take_out(self, keys):
        nothing = np.zeros_like(self.W)
        self.add(-sum((self.steps.pop(key, nothing) for key in keys), start=nothing))

    def add(self, change):
        """Weights that are touched stay within their bound."""
        self.W = self.W + change
        touched, largest = change != 0, self.bounds.weight * self.unit
        self.W[touched] = np.clip(self.W[touched], -largest, largest)


def by_voter(votes, most):
    sums, voters = {}, {}
    for entry, parts in votes:
        voter = Voter.of(entry.client, entry.trust)
        is_last_word = voter.trust is not None and abs(parts) >= most
        sums[voter.name] = parts + (0 if is_last_word else sums.get(voter.name, 0))
        voters[voter.name] = voter
    said = {voters[name]: max(-most, min(most, parts)) for name, parts in sums.items()}
    return {v: p for v, p in said.items() if v.trust == "teacher" and abs(p) == most} or said


def step_of(index, q, docs, net, voters, W, bounds, unit):
    """The change that a step makes before anybody pays; None where there is none."""
    n_words = index.model.n_words or W.shape[1]
    better, worse = docs if net > 0 else docs[::-1]
    b, w = (index.row(doc) for doc in (better, worse))
    scores = [float(index.model.weights.score(q, d)[0, 0]) for d in (b, w)]
    q, b, w = (np.where(np.arange(d.shape[1]) < n_words, d.toarray()[0], np.float32(0)) for d in (q, b, w))
    longer = max(np.linalg.norm(b), np.linalg.norm(w))
    target = max(bounds.margin * max(map(abs, scores)), bounds.least_margin * unit * np.linalg.norm(q) * longer)
    x = np.outer(q.astype(float), (b - w).astype(float))
    gap = target - (scores[0] - scores[1] + (W * x).sum())
    is_taught = any(voter.trust == "teacher" for voter, parts in voters.items() if (parts > 0) == (net > 0))
    pairs = bounds.teacher_pairs if is_taught else bounds.pairs
    move = min(gap, bounds.rate * abs(net) / ONE_CLICK * target)
    if not x.any() or move <= 0:
        return None
    if 0 < pairs < np.count_nonzero(x):
        least = np.sort(np.abs(x[x != 0]))[-pairs]
        kept = np.abs(x) > least
        ties = np.flatnonzero((np.abs(x) == least).ravel())[: pairs - int(kept.sum())]
        kept.ravel()[ties] = True
        x = np.where(kept, x, 0.0)
    scale = move / (x**2).sum()
    if bounds.step:
        scale = min(scale, bounds.step * unit / np.sqrt((x**2).sum()))
    return scale * x


def paid(size, asking, entry, bounds, unit, purses, asked, agreed, renewals):
    """The share that those who ask can afford."""
    addresses = {voter.address for voter in asking if voter.trust is not None}
    together = len({site(address) or address for address in addresses}) > 1
    asked.update(addresses)
    agreed.update(addresses if together else ())
    now = 0.0 if entry.trust is None else seconds_of(entry)

    def owed(purse):
        amount, number, seconds = purses.get(purse, (0.0, entry.number, now))
        if any(number < renewal <= entry.number for renewal in renewals):
            return 0.0
        _, most, renews = purse
        if not (renews and bounds.renewal):
            return amount
        return max(0.0, amount - most * max(0.0, now - seconds) / 3600 / bounds.renewal)

    affordable = 0.0
    for voter in sorted(asking, key=lambda voter: (voter.client, voter.trust or "")):
        most, renews = bounds.client * unit, voter.trust is not None
        is_alone = voter.trust == "visitor" and 2 * agreed[voter.address] < max(1, asked[voter.address])
        if voter.trust == "teacher":
            own = [("teacher", bounds.teacher * unit, True)]
        else:
            share = 100 if voter.trust == "vouched" else 10
            own = [(voter.client, most, renews), (f"*/{voter.address}", share * most, renews)]
            if voter.trust == "visitor":
                if site(voter.address):
                    own.append((f"*/{site(voter.address)}/48", 40 * most, renews))
                if bounds.crowd:
                    own.append(("*alone" if is_alone else "*", bounds.crowd * unit, False))
        price = max(1.0, bounds.alone) if is_alone else 1.0
        payment = size * asking[voter] / sum(asking.values())
        payment = min([payment, *(max(0.0, purse[1] - owed(purse)) / price for purse in own)])
        for purse in own:
            seconds = max(now, purses[purse][2]) if purse in purses else now
            purses[purse] = (owed(purse) + payment * price, entry.number, seconds)
        affordable += payment
    return min(1.0, affordable / size) if size else 0.0
