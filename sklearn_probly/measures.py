"""How unsure a prediction is: the entropy of probabilities, and its two parts over members.

Functions of numpy arrays. They serve any model that gives probabilities, a random forest too.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Decomposition", "dare_score", "decompose", "decompose_moments", "entropy"]

_TOLERANCE = 1e-3  # forgives the rounding of float16 and float32 probabilities


class Decomposition(NamedTuple):
    """Predictive uncertainty and its two parts, one value a sample.

    Attributes
    ----------
    total : ndarray of shape (n_samples,)
        Entropy of the mean prediction of the members, float64, between 0 and the logarithm of
        the number of classes.
    aleatoric : ndarray of shape (n_samples,)
        Mean entropy of the members' predictions: the doubt that they share. Between 0 and
        `total`.
    epistemic : ndarray of shape (n_samples,)
        ``total - aleatoric``, the mutual information between label and member: how far the
        members disagree. Between 0 and `total`.
    """

    total: NDArray[np.float64]
    aleatoric: NDArray[np.float64]
    epistemic: NDArray[np.float64]


def entropy(proba: ArrayLike, base: float = 2) -> NDArray[np.float64]:
    """Compute the Shannon entropy of each distribution on the last axis.

    Parameters
    ----------
    proba : array-like of shape (..., n_classes)
        Probabilities in [0, 1] that sum to one on the last axis, both to within 1e-3.
    base : float, default=2
        Base of the logarithm, > 1. 2 gives bits, ``math.e`` gives nats.

    Returns
    -------
    entropy : ndarray of shape (...)
        Entropies, float64, between 0 and the logarithm of the number of classes. A
        probability of 0 adds nothing.

    Raises
    ------
    ValueError
        If `proba` is a single number, is not finite, is outside [0, 1] or does not sum to one,
        or if `base` is not a finite number above 1.

    See Also
    --------
    decompose : The entropy of several members, split into two parts.

    References
    ----------
    .. [1] C. E. Shannon, "A mathematical theory of communication", Bell System Technical
       Journal 27, 1948.

    Examples
    --------
    >>> from sklearn_probly.measures import entropy
    >>> entropy([[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]]).round(3)
    array([1.   , 0.469, 0.   ])
    """
    p = _check_proba(proba)
    # 0 log 0 = 0; subtracting from 0.0 keeps a certain prediction from reading -0.0.
    h = 0.0 - (p * _log(np.where(p > 0, p, 1.0), base)).sum(axis=-1)
    return np.clip(h, 0.0, _log(p.shape[-1], base))


def decompose(member_proba: ArrayLike, base: float = 2) -> Decomposition:
    """Split the uncertainty of an ensemble into what its members share and where they differ.

    Parameters
    ----------
    member_proba : array-like of shape (n_members, n_samples, n_classes)
        Probabilities of each member, in [0, 1] and with sum one on the last axis, both to
        within 1e-3. `n_members` must be >= 1.
    base : float, default=2
        Base of the logarithm, > 1. 2 gives bits, ``math.e`` gives nats.

    Returns
    -------
    decomposition : Decomposition
        Named tuple `(total, aleatoric, epistemic)` of float64 arrays of shape (n_samples,),
        in units of `base`: ``total == aleatoric + epistemic``, none is negative and `total` is
        at most the logarithm of the number of classes.

    Raises
    ------
    ValueError
        If `member_proba` does not have three axes and a member, or is not made of
        probabilities, or if `base` is not a finite number above 1.

    See Also
    --------
    entropy : The uncertainty of a single prediction.
    decompose_moments : The same from running means, for members too many to hold at once.

    Notes
    -----
    With few members `epistemic` is biased low, by a factor of about
    ``(n_members - 1) / n_members``; values from different numbers of members do not compare.

    References
    ----------
    .. [1] S. Depeweg et al., "Decomposition of uncertainty in Bayesian deep learning for
       efficient and risk-sensitive learning", ICML 2018.

    Examples
    --------
    Two members that each are sure, of different classes, and two that share a doubt:

    >>> from sklearn_probly.measures import decompose
    >>> parts = decompose([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    >>> parts.total
    array([1., 1.])
    >>> parts.aleatoric
    array([0., 1.])
    >>> parts.epistemic
    array([1., 0.])
    """
    p = np.asarray(member_proba, dtype=np.float64)
    if p.ndim != 3 or len(p) == 0:
        raise ValueError(
            "member_proba must have shape (n_members, n_samples, n_classes) with at least one "
            f"member; got shape {p.shape}. If it holds one model's probabilities, use proba[None] "
            "for a single model."
        )
    # The entropy comes first: it checks every member, where a mean could hide a bad one.
    mean_entropy = entropy(p, base).mean(axis=0)
    return decompose_moments(p.mean(axis=0), mean_entropy, base)


def decompose_moments(
    mean_proba: ArrayLike, mean_entropy: ArrayLike, base: float = 2
) -> Decomposition:
    """Split the uncertainty of an ensemble from two means over its members.

    Parameters
    ----------
    mean_proba : array-like of shape (n_samples, n_classes)
        Mean of the members' probabilities, in [0, 1] and with sum one on the last axis, both
        to within 1e-3.
    mean_entropy : array-like of shape (n_samples,)
        Mean of the members' entropies, in units of `base`. It is clipped to between 0 and the
        entropy of `mean_proba`, where it always lies but for rounding.
    base : float, default=2
        Base of the logarithm, > 1. 2 gives bits, ``math.e`` gives nats.

    Returns
    -------
    decomposition : Decomposition
        As from :func:`decompose`.

    Raises
    ------
    ValueError
        If the shapes do not fit, `mean_proba` is not made of probabilities, `mean_entropy` is
        not finite or misses its range by more than 1e-3, or if `base` is not a finite number
        above 1.

    See Also
    --------
    decompose : The same from the probabilities of all members.

    Examples
    --------
    >>> from sklearn_probly.measures import decompose_moments
    >>> decompose_moments([[0.5, 0.5]], [0.25])
    Decomposition(total=array([1.]), aleatoric=array([0.25]), epistemic=array([0.75]))
    """
    p = np.asarray(mean_proba, dtype=np.float64)
    h = np.asarray(mean_entropy, dtype=np.float64)
    if p.ndim != 2 or h.shape != p.shape[:1]:
        raise ValueError(
            "mean_proba must have shape (n_samples, n_classes) and mean_entropy (n_samples,); "
            f"got {p.shape} and {h.shape}. Average both over the members first."
        )
    total = entropy(p, base)
    possible = (h >= -_TOLERANCE) & (h <= total + _TOLERANCE)  # False at NaN
    if not possible.all():
        row = int(np.argmin(possible))
        raise ValueError(
            "mean_entropy must be finite and between 0 and the entropy of mean_proba; "
            f"got {h[row]:g} at row {row}, where that entropy is {total[row]:g}. "
            f"Give it in units of base={base}."
        )
    epistemic = total - np.clip(h, 0.0, total)
    # The second difference, unlike h itself, makes the parts add up to the total to the last bit.
    return Decomposition(total, total - epistemic, epistemic)


def dare_score(member_logits: ArrayLike, ddof: int = 1) -> NDArray[np.float64]:
    r"""Score how far out of distribution samples are, from an anti-regularized ensemble's logits.

    .. math:: \frac1M \sum_m \lVert h_m - K e_{\arg\max h_m} \rVert^2
        + \sum_k \mathrm{Var}_m(h_{mk})

    How far the members' logits are from a one-hot code of height K, plus how far they disagree
    [1]_. The first part presumes members trained by squared error to that code. Those of
    `DAREEnsembleClassifier` are trained by cross-entropy, whose logits have no such height: for
    them, and for any ensemble of probabilities, the epistemic part of :func:`decompose` is the
    measure to use.

    Parameters
    ----------
    member_logits : array-like of shape (n_members, n_samples, n_classes)
        Finite logits of each member.
    ddof : {0, 1}, default=1
        The variance divides by ``n_members - ddof``: 1 is the unbiased one.

    Returns
    -------
    score : ndarray of shape (n_samples,)
        Float64, >= 0; higher is further out of distribution. In squared units of the logits.

    Raises
    ------
    ValueError
        If `member_logits` is not finite, does not have three axes, has no class or not more than
        `ddof` members, or if `ddof` is neither 0 nor 1.

    See Also
    --------
    decompose : From probabilities, in units of information.

    References
    ----------
    .. [1] A. de Mathelin, F. Deheeger, M. Mougeot, N. Vayatis. "Deep Anti-Regularized Ensembles
       provide reliable out-of-distribution uncertainty quantification". arXiv 2304.04042, 2023.

    Examples
    --------
    The first member is at the code of the first class; the second is not, and differs from it:

    >>> from sklearn_probly.measures import dare_score
    >>> dare_score([[[3.0, 0.0, 0.0]], [[2.0, 1.0, 0.0]]])
    array([2.])
    """
    h = np.asarray(member_logits, dtype=np.float64)
    if ddof not in (0, 1):
        raise ValueError(f"ddof must be 0 or 1; got {ddof!r}.")
    if h.ndim != 3 or len(h) <= ddof or h.shape[2] == 0:
        raise ValueError(
            "member_logits must have shape (n_members, n_samples, n_classes) with more than "
            f"ddof={ddof} members and at least one class; got shape {h.shape}."
        )
    if not np.isfinite(h).all():
        raise ValueError(f"member_logits must be finite; got {h[~np.isfinite(h)][0]:g}.")
    n_classes = h.shape[2]
    code = n_classes * np.eye(n_classes)[h.argmax(axis=2)]
    return np.square(h - code).sum(axis=2).mean(axis=0) + h.var(axis=0, ddof=ddof).sum(axis=1)


def _log(x: ArrayLike, base: float) -> NDArray[np.float64]:
    if not 1 < base < np.inf:
        raise ValueError(f"base must be a finite number above 1; got {base!r}. Use 2 for bits.")
    # log2 is exact at powers of two, which a quotient of logarithms is not.
    return np.log2(x) if base == 2 else np.log(x) / np.log(base)


def _check_proba(proba: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(proba, dtype=np.float64)
    if p.ndim == 0:
        raise ValueError(
            f"proba must have shape (..., n_classes); got the single number {p}. "
            "Give the probabilities of all classes, such as [p, 1 - p]."
        )
    advice = "Give probabilities, such as those of predict_proba, not logits."
    possible = (p >= -_TOLERANCE) & (p <= 1 + _TOLERANCE)  # False at NaN
    if not possible.all():
        raise ValueError(f"proba must be finite and in [0, 1]; got {p[~possible][0]:g}. {advice}")
    sums = p.sum(axis=-1)
    wrong = np.abs(sums - 1) > _TOLERANCE
    if wrong.any():
        raise ValueError(
            f"proba must sum to one on its last axis; got a sum of {sums[wrong][0]:g}. {advice}"
        )
    return np.clip(p, 0.0, 1.0)
