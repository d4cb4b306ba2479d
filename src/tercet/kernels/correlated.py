"""Most correlated frequent words of each word (Bai et al. 2010, section 2.2.3)."""

from tercet.kernels.compiler import kernel


@kernel
def best_by_dice(by_word, by_unit, occur, occur_frequent, counts, seen, best, bins, dice):
    """Fill in the bins of each word, best first, and their DICE.

    by_word   (indptr, units)    the units of each word
    by_unit   (indptr, places)   the frequent words of each unit, by their position among frequent words
    counts, seen (n_frequent,)   scratch; counts are zero before and after
    best      (n_bins,)          scratch
    bins, dice (n_words, n_bins) filled in up to the number of bins of a word; ties go to the lower position
    """
    w_indptr, units = by_word
    u_indptr, positions = by_unit
    for i in range(w_indptr.size - 1):
        n_seen = 0
        for a in range(w_indptr[i], w_indptr[i + 1]):
            for b in range(u_indptr[units[a]], u_indptr[units[a] + 1]):
                word = positions[b]
                if counts[word] == 0:
                    seen[n_seen] = word
                    n_seen += 1
                counts[word] += 1
        n_best = 0
        for s in range(n_seen):
            word = seen[s]
            score = 2 * counts[word] / (occur[i] + occur_frequent[word])
            counts[word] = 0
            k = n_best
            while k > 0 and (best[k - 1] < score or (best[k - 1] == score and bins[i, k - 1] > word)):
                if k < best.size:
                    best[k], bins[i, k] = best[k - 1], bins[i, k - 1]
                k -= 1
            if k < best.size:
                best[k], bins[i, k] = score, word
                n_best = min(n_best + 1, best.size)
        for k in range(n_best):
            dice[i, k] = best[k]
