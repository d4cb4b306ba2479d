"""The best mixture of planes, for methods that approach a function by planes below it."""

from tercet.kernels.compiler import kernel


@kernel
def best_mixture(gram, heights, mixture, tolerance, max_steps):
    """Raise ``heights · m - m · gram · m / 2`` over mixtures m (n,), none below 0, that sum to 1; returns steps done.

    gram (n, n) symmetric, no eigenvalue below 0; mixture comes in as one and is changed in place. Each step moves
    between two planes, exactly as far as is best: to the steepest from that which promises most. It ends when no two
    slopes of those that are used, or could be, differ by more than ``tolerance``.
    """
    n = heights.size
    slopes = heights.copy()
    for i in range(n):
        for j in range(n):
            slopes[i] -= gram[i, j] * mixture[j]
    for step in range(max_steps):
        to = slopes.argmax()
        source, most, widest = -1, -1.0, 0.0
        for j in range(n):
            difference = slopes[to] - slopes[j]
            if mixture[j] > 0.0 and difference > 0.0:
                widest = max(widest, difference)
                curvature = gram[to, to] + gram[j, j] - 2.0 * gram[to, j]
                promise = difference * difference / max(curvature, 1e-300)
                if promise > most:
                    source, most = j, promise
        if source < 0 or widest <= tolerance:
            return step
        curvature = gram[to, to] + gram[source, source] - 2.0 * gram[to, source]
        difference = slopes[to] - slopes[source]
        if difference >= mixture[source] * curvature:
            move = mixture[source]
            mixture[source] = 0.0
        else:
            move = difference / curvature
            mixture[source] -= move
        mixture[to] += move
        for i in range(n):
            slopes[i] -= move * (gram[i, to] - gram[i, source])
    return max_steps
