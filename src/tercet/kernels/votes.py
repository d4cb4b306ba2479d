"""Votes to steps: what all say of two documents for a query is one step, paid for by those who asked for it.

Ballots are in the order in which they were cast, and a question is answered at its last one, so that a pass over the
ballots takes all steps in their order. A ballot knows the one before it on the same question. Steps themselves are
those of ``online.py``. What changes in place: the table of weights, what purses and addresses spent and asked for, and
``share``, ``n_pairs`` and ``moved`` of the questions that were answered.
"""

from typing import Any, NamedTuple

import numpy as np

from tercet.kernels.compiler import helper_in_order
from tercet.kernels.online import add_step, in_order, margin_of, propose, slot_of

NOBODY, TEACHER, VISITOR, VOUCHED = 0, 1, 2, 3  # of ``trust``; in the order of their names, those without one first
CROWD, ALONE = 0, 1  # purses of all visitors, by whether they agree with others
NOT_LOOKED_UP, WITHOUT, LOOKED_UP = 0, 1, 2  # of ``known``: WITHOUT has no step, a document or the query being unknown
NO_STEP = -1.0  # of ``share``
ONE_CLICK = 1 << 20  # votes are whole numbers of parts, so that contradictory ones cancel to exactly 0


class Ballots(NamedTuple):
    """Votes, (n_ballots,), ``parts`` above 0 for the first document; ``before`` is that on the same question, or -1."""

    number: Any  # int64, of the entry
    question: Any  # int32
    voter: Any  # int32
    parts: Any  # int32
    seconds: Any  # float64
    before: Any  # int64
    counts: Any  # bool, until it is withdrawn


class Questions(NamedTuple):
    """Two documents for a query, (n_questions,): the last ballot that counts, or -1; the contrast; and what came of it.

    Words of both documents that differ are ``n_words`` from ``start`` on, as first minus second.
    """

    query: Any  # int32
    first: Any  # int32
    second: Any  # int32
    last: Any  # int64
    known: Any  # int8
    start: Any  # int64
    n_words: Any  # int32
    margin: Any  # float64
    target: Any  # float64
    share: Any  # float64
    n_pairs: Any  # int32
    moved: Any  # float64, sizes of its step's changes added up; below 0 where that put the second document ahead


class Spans(NamedTuple):
    """Where words of a query, or letters of a name, begin, and how many there are, (n,)."""

    start: Any  # int64
    n: Any  # int32


class WordPool(NamedTuple):
    """Words one behind the other, (n_words,)."""

    terms: Any  # int32
    values: Any  # float32


class Voters(NamedTuple):
    """Who pays, (n_voters,); ``name`` is who says it, and ``own``, ``shared``, ``site`` are purses, or -1."""

    name: Any  # int32
    trust: Any  # int8
    address: Any  # int32
    own: Any  # int32
    shared: Any  # int32
    site: Any  # int32
    start: Any  # int64
    n: Any  # int32


class Purses(NamedTuple):
    """Allowances, (n_purses,): what is in them, and what was spent until the entry ``number``, -1 for none."""

    most: Any  # float64
    renews: Any  # bool
    amount: Any  # float64
    number: Any  # int64
    seconds: Any  # float64


class Addresses(NamedTuple):
    """Steps that addresses asked for, and those of them that another place asked for, too, (n_addresses,)."""

    place: Any  # int32
    asked: Any  # int64
    agreed: Any  # int64


class Payers(NamedTuple):
    """All that is known of who pays; ``letters`` uint8 are of their names, ``renewals`` int64 numbers of entries."""

    voters: Any
    purses: Any
    addresses: Any
    letters: Any
    renewals: Any


class Terms(NamedTuple):
    """By what steps are taken and paid for; lengths are in the units of the weights."""

    rate: float
    most_parts: int  # what one voter can say for or against
    pairs: int
    teacher_pairs: int
    length: float
    weight: float
    renewal: float  # hours; 0 for never
    alone: float
    has_crowd: bool


# -- allowances -----------------------------------------------------------------------------------------------------


@in_order
def owed(purses, purse, renewals, renewal, number, seconds):
    """What was spent of an allowance and has not come back yet."""
    spent_at = purses.number[purse]
    if spent_at < 0:
        return 0.0
    if renewals.size > 0:
        since = np.searchsorted(renewals, spent_at, side="right")
        if since < np.searchsorted(renewals, number, side="right"):
            return 0.0
    if not (purses.renews[purse] and renewal > 0):
        return purses.amount[purse]
    hours = max(0.0, seconds - purses.seconds[purse]) / 3600
    return max(0.0, purses.amount[purse] - purses.most[purse] * hours / renewal)


@in_order
def is_alone(payers, voter):
    """Whether a visitor agrees with nobody of another place in most of what it asks for."""
    address = payers.voters.address[voter]
    asked, agreed = payers.addresses.asked[address], payers.addresses.agreed[address]
    return payers.voters.trust[voter] == VISITOR and 2 * agreed < max(1, asked)


@in_order
def purses_of(payers, voter, has_crowd, out):
    """Write the purses that somebody pays from, its own first; returns how many."""
    voters = payers.voters
    out[0] = voters.own[voter]
    n = 1
    if voters.shared[voter] >= 0:
        out[n] = voters.shared[voter]
        n += 1
    if voters.site[voter] >= 0:
        out[n] = voters.site[voter]
        n += 1
    if voters.trust[voter] == VISITOR and has_crowd:
        out[n] = ALONE if is_alone(payers, voter) else CROWD
        n += 1
    return n


@helper_in_order
def goes_before(payers, one, other):
    """Whether one voter pays before another: by the letters of their names, then by trust."""
    voters, letters = payers.voters, payers.letters
    n, m = voters.n[one], voters.n[other]
    start, begin = voters.start[one], voters.start[other]
    for i in range(min(n, m)):
        if letters[start + i] != letters[begin + i]:
            return letters[start + i] < letters[begin + i]
    if n != m:
        return n < m
    return voters.trust[one] < voters.trust[other]


@helper_in_order
def sift_down(payers, asking, parts, root, n):
    while 2 * root + 1 < n:
        child = 2 * root + 1
        if child + 1 < n and goes_before(payers, asking[child], asking[child + 1]):
            child += 1
        if not goes_before(payers, asking[root], asking[child]):
            return
        asking[root], asking[child] = asking[child], asking[root]
        parts[root], parts[child] = parts[child], parts[root]
        root = child


@helper_in_order
def sort_payers(payers, asking, parts, n):
    """Heapsort by `goes_before`; no two are equal."""
    for root in range(n // 2 - 1, -1, -1):
        sift_down(payers, asking, parts, root, n)
    for end in range(n - 1, 0, -1):
        asking[0], asking[end] = asking[end], asking[0]
        parts[0], parts[end] = parts[end], parts[0]
        sift_down(payers, asking, parts, 0, end)


@helper_in_order
def note_asked(payers, asking, n):
    """Count who asked, and whether somebody of another place did, too."""
    voters, addresses = payers.voters, payers.addresses
    if n == 1:
        addresses.asked[voters.address[asking[0]]] += voters.trust[asking[0]] != NOBODY
        return
    named = np.empty(n, np.int32)
    m = 0
    for k in range(n):
        if voters.trust[asking[k]] != NOBODY:
            named[m] = voters.address[asking[k]]
            m += 1
    named = np.sort(named[:m])
    agreed = False
    for k in range(1, m):
        agreed = agreed or addresses.place[named[k]] != addresses.place[named[0]]
    for k in range(m):
        if k == 0 or named[k] != named[k - 1]:
            addresses.asked[named[k]] += 1
            if agreed:
                addresses.agreed[named[k]] += 1


@in_order
def charge(size, asking, parts, n, number, seconds, payers, terms, own):
    """The share of a step that those who asked for it can afford; each pays for its part of the votes.

    ``asking`` (voters, int32) and ``parts`` (int64) are n long, and are put in the order in which they pay. ``own``
    (int32) has room for the purses of one of them.
    """
    purses = payers.purses
    sort_payers(payers, asking, parts, n)
    note_asked(payers, asking, n)
    votes = 0
    for k in range(n):
        votes += parts[k]
    affordable = 0.0
    for k in range(n):
        payment = size * (parts[k] / votes)
        price = max(1.0, terms.alone) if is_alone(payers, asking[k]) else 1.0
        m = purses_of(payers, asking[k], terms.has_crowd, own)
        for i in range(m):
            left = purses.most[own[i]] - owed(purses, own[i], payers.renewals, terms.renewal, number, seconds)
            payment = min(payment, max(0.0, left) / price)
        for i in range(m):
            purse = own[i]
            spent = owed(purses, purse, payers.renewals, terms.renewal, number, seconds) + payment * price
            # A clock that was set back must not make up for time twice.
            purses.seconds[purse] = max(seconds, purses.seconds[purse]) if purses.number[purse] >= 0 else seconds
            purses.amount[purse], purses.number[purse] = spent, number
        affordable += payment
    return min(1.0, affordable / size) if size > 0 else 0.0


# -- questions ------------------------------------------------------------------------------------------------------


@in_order
def find_question(slots, questions, query, first, second):
    """The slot of a question, whose value is its number, or -1 where it would be."""
    last = slots.size - 1
    mixed = (np.uint64(query) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(first) * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed = (mixed ^ (np.uint64(second) * np.uint64(0x165667B19E3779F9))) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64(mixed >> np.uint64(20)) & last
    while slots[slot] >= 0:
        q = slots[slot]
        if questions.query[q] == query and questions.first[q] == first and questions.second[q] == second:
            return slot
        slot = (slot + 1) & last
    return slot


@in_order
def fill_slots(slots, questions, n):
    """Put all questions into an empty table."""
    for q in range(n):
        slots[find_question(slots, questions, questions.query[q], questions.first[q], questions.second[q])] = q


@in_order
def cast_until(ballots, last):
    """The ballots that count on the question of a last one, in their order."""
    n = 0
    ballot = last
    while ballot >= 0:
        n += ballots.counts[ballot]
        ballot = ballots.before[ballot]
    cast = np.empty(n, np.int64)
    ballot, i = last, n
    while ballot >= 0:
        if ballots.counts[ballot]:
            i -= 1
            cast[i] = ballot
        ballot = ballots.before[ballot]
    return cast


@in_order
def count_votes(ballots, last, voters, most):
    """What each voter says on the question of a last ballot, however often: at most so many parts for or against.

    A preference is a voter's last word: what it said before counts no more. That of a teacher stands against all
    others. Votes for which allowances were for life have neither rule. Returns voters and their parts.
    """
    cast = cast_until(ballots, last)
    n = cast.size
    names = np.empty(n, np.int32)
    for i in range(n):
        names[i] = voters.name[ballots.voter[cast[i]]]
    order = np.argsort(names, kind="mergesort") if n > 1 else np.zeros(1, np.int64)
    said, parts = np.empty(n, np.int32), np.empty(n, np.int64)
    m = 0
    for i in range(n):
        ballot = cast[order[i]]
        voter, share = ballots.voter[ballot], np.int64(ballots.parts[ballot])
        if i > 0 and names[order[i]] == names[order[i - 1]]:
            m -= 1
            if not (voters.trust[voter] != NOBODY and abs(share) >= most):
                share += parts[m]
        said[m], parts[m] = voter, share
        m += 1
    is_taught = False
    for i in range(m):
        parts[i] = max(-most, min(most, parts[i]))
        is_taught = is_taught or (voters.trust[said[i]] == TEACHER and abs(parts[i]) == most)
    if is_taught:
        taught = 0
        for i in range(m):
            if voters.trust[said[i]] == TEACHER and abs(parts[i]) == most:
                said[taught], parts[taught] = said[i], parts[i]
                taught += 1
        m = taught
    return said[:m], parts[:m]


@in_order
def most_step_pairs(n_all, terms):
    """How many pairs a step may change at most, of all that the words of a query and of two documents make."""
    if terms.pairs <= 0 or terms.teacher_pairs <= 0:
        return n_all
    return min(n_all, max(terms.pairs, terms.teacher_pairs))


@in_order
def take_steps(table, n_used, n_doc_terms, cum, first, stop, ballots, questions, queries, words, payers, terms):
    """Steps at the ballots from first to stop, until the table is half full; returns where it ended, and slots used.

    ``queries`` are spans of ``words``, as are the differences of questions.
    """
    room, width = 0, 0
    for ballot in range(first, stop):
        question = ballots.question[ballot]
        if questions.last[question] == ballot:
            width = max(width, np.int64(questions.n_words[question]))
            n_query_words = np.int64(queries.n[questions.query[question]])
            room = max(room, n_query_words * np.int64(questions.n_words[question]))
    signed = np.empty(width, np.float32)
    keys, change, slots = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
    bounds = np.array([0.0, terms.length, terms.weight])
    purses = np.empty(4, np.int32)
    one_voter, its_parts = np.empty(1, np.int32), np.empty(1, np.int64)
    for ballot in range(first, stop):
        question = ballots.question[ballot]
        if questions.last[question] != ballot:
            continue
        n = questions.n_words[question]
        of_query = queries.start[questions.query[question]]
        q_terms = words.terms[of_query : of_query + queries.n[questions.query[question]]]
        q_values = words.values[of_query : of_query + queries.n[questions.query[question]]]
        if 2 * (n_used + most_step_pairs(q_terms.size * np.int64(n), terms)) > table[0].size:
            return ballot, n_used
        questions.share[question], questions.n_pairs[question], questions.moved[question] = NO_STEP, 0, 0.0
        if questions.known[question] != LOOKED_UP:
            continue
        if ballots.before[ballot] < 0:  # most questions have one vote: nothing is allocated for it
            one_voter[0], its_parts[0] = ballots.voter[ballot], ballots.parts[ballot]
            its_parts[0] = max(-terms.most_parts, min(terms.most_parts, its_parts[0]))
            said, parts = one_voter, its_parts
        else:
            said, parts = count_votes(ballots, ballot, payers.voters, terms.most_parts)
        net = np.int64(0)
        for i in range(said.size):
            net += parts[i]
        if net == 0:
            continue
        is_taught, n_asking = False, 0
        for i in range(said.size):
            if (parts[i] > 0) == (net > 0):
                is_taught = is_taught or payers.voters.trust[said[i]] == TEACHER
                if parts[i] != 0:
                    said[n_asking], parts[n_asking] = said[i], abs(parts[i])
                    n_asking += 1
        sign = np.float32(1.0) if net > 0 else np.float32(-1.0)
        start = questions.start[question]
        cols = words.terms[start : start + n]
        for j in range(n):
            signed[j] = sign * words.values[start + j]
        margin = margin_of(table, n_doc_terms, q_terms, q_values, cols, signed, n, cum, slots)
        target = questions.target[question]
        gap = target - (sign * questions.margin[question] + margin)
        bounds[0] = terms.teacher_pairs if is_taught else terms.pairs
        reach = terms.rate * (abs(net) / ONE_CLICK)
        m = propose(n_doc_terms, q_terms, q_values, cols, signed, n, gap, target, reach, bounds, keys, change, slots)
        size = 0.0
        for k in range(m):
            size += abs(change[k])
        share = 0.0
        if m > 0:
            number, seconds = ballots.number[ballot], ballots.seconds[ballot]
            share = charge(size, said, parts, n_asking, number, seconds, payers, terms, purses)
        if share > 0:
            n_used += add_step(table, keys[:m], change[:m], slots, share, terms.weight, cum)
        questions.share[question], questions.n_pairs[question] = share, m
        questions.moved[question] = sign * share * size
    return stop, n_used


@helper_in_order
def step_pairs(question, n_doc_terms, questions, queries, words, bounds, keys, change, slots):
    """Write the pairs that the step of a question changed, in what proportion; returns how many.

    They are the same whatever the weights are. The others, but for ``questions`` and words, are room for it.
    """
    start, n = questions.start[question], questions.n_words[question]
    of_query = queries.start[questions.query[question]]
    q_terms = words.terms[of_query : of_query + queries.n[questions.query[question]]]
    q_values = words.values[of_query : of_query + queries.n[questions.query[question]]]
    cols, values = words.terms[start : start + n], words.values[start : start + n]
    bounds[0] = questions.n_pairs[question]
    return propose(n_doc_terms, q_terms, q_values, cols, values, n, 1.0, 1.0, 1.0, bounds, keys, change, slots)


@in_order
def recorded_steps(which, n_doc_terms, questions, queries, words):
    """What the steps of questions (which, int64) changed, to rounding: keys of pairs (int64), and by how much."""
    n, room = 0, 0
    for question in which:
        n_all = np.int64(queries.n[questions.query[question]]) * np.int64(questions.n_words[question])
        n += min(n_all, np.int64(questions.n_pairs[question]))
        room = max(room, n_all)
    all_keys, all_changes = np.empty(n, np.int64), np.empty(n)
    keys, change, slots = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
    bounds = np.array([0.0, 0.0, 0.0])
    n = 0
    for question in which:
        if questions.n_pairs[question] == 0:
            continue
        m = step_pairs(question, n_doc_terms, questions, queries, words, bounds, keys, change, slots)
        size = 0.0
        for k in range(m):
            size += abs(change[k])
        scale = questions.moved[question] / size if m > 0 else 0.0
        for k in range(m):
            all_keys[n], all_changes[n] = keys[k], scale * change[k]
            n += 1
    return all_keys[:n], all_changes[:n]


@helper_in_order
def put_among_latest(latest, numbers):
    """Put numbers (int64, falling) among the largest so far, falling and distinct, 0 where there are fewer."""
    place = 0
    for number in numbers:
        if number <= latest[-1]:
            return
        while latest[place] > number:
            place += 1
        if latest[place] != number:
            for i in range(latest.size - 1, place, -1):
                latest[i] = latest[i - 1]
            latest[place] = number


@in_order
def note_votes_behind(
    wanted, is_wanted_word, first, stop, n_doc_terms, ballots, questions, queries, words, latest, n_votes
):
    """Note which votes are behind pairs of words, of the questions from first to stop, the latest question first.

    ``wanted`` (int64) is an open table of the pairs' keys, and ``is_wanted_word`` (bool) says which query words are in
    them. By the slots of that table, ``latest`` (int64, (n_slots, n)) has the numbers of the n latest entries, falling,
    0 where there are fewer, and ``n_votes`` (int64) counts all votes; both change in place.
    """
    has_word = np.zeros(stop - first, np.bool_)
    room = 0
    for question in range(first, stop):
        if questions.last[question] < 0 or questions.n_pairs[question] == 0:
            continue
        of_query, n = queries.start[questions.query[question]], queries.n[questions.query[question]]
        for term in words.terms[of_query : of_query + n]:
            if is_wanted_word[term]:
                has_word[question - first] = True
                room = max(room, np.int64(n) * np.int64(questions.n_words[question]))
                break
    keys, change, slots = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
    bounds = np.array([0.0, 0.0, 0.0])
    numbers = np.empty(latest.shape[1], np.int64)
    for question in range(stop - 1, first - 1, -1):
        if not has_word[question - first]:
            continue
        n_cast, n_numbers = 0, 0
        ballot = questions.last[question]
        while ballot >= 0:
            if ballots.counts[ballot]:
                n_cast += 1
                if n_numbers < numbers.size:
                    numbers[n_numbers] = ballots.number[ballot]
                    n_numbers += 1
            ballot = ballots.before[ballot]
        m = step_pairs(question, n_doc_terms, questions, queries, words, bounds, keys, change, slots)
        for k in range(m):
            slot = slot_of(wanted, keys[k])
            if wanted[slot] == keys[k]:
                n_votes[slot] += n_cast
                put_among_latest(latest[slot], numbers[:n_numbers])
