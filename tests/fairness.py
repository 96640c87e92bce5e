"""How fair the split of a load is, as the forwarding study prints it.

Of N guests k are strongly loaded, and the others together carry a share q (`virtlab.catalogue.split`). Jain's index of
the shares is then a function of k, N and q alone:

    J(k) = k (N - k) / (N [N (1 - q)^2 - k (1 - 2 q)])        J(N) = 1

Source: the published forwarding study (N = 12, q = 0.01); Jain, Chiu, Hawe 1984.
"""


def fairness(guests: int, strong: int, weak_share: float) -> float:
    """J(k): Jain's index of the split, 1/N to 1.

    >>> [f"{fairness(12, k, 0.01):.4f}" for k in (1, 2, 3, 11, 12)]
    ['0.0850', '0.1700', '0.2551', '0.9342', '1.0000']
    """
    if strong == guests:
        return 1.0
    q = weak_share
    return strong * (guests - strong) / (guests * (guests * (1 - q) ** 2 - strong * (1 - 2 * q)))
