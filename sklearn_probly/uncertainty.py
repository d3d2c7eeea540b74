"""Ask any fitted estimator how unsure it is, through the pipelines and searches around it.

Estimators are known by what they can do, never by class: this module imports none of ours.
"""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

__all__ = ["cross_val_uncertainty", "predict_uncertainty"]

Kind = Literal["total", "aleatoric", "epistemic"]


def predict_uncertainty(estimator: Any, X: Any, kind: Kind | None = None) -> NDArray[np.float64]:
    """Predict uncertainty with a fitted estimator or with anything fitted that holds one.

    scikit-learn's meta-estimators do not pass `predict_uncertainty` on; this function does.

    Parameters
    ----------
    estimator : estimator instance
        Fitted estimator with a method `predict_uncertainty`, or a fitted
        :class:`~sklearn.pipeline.Pipeline` that ends in one (`X` is transformed first), a
        search such as :class:`~sklearn.model_selection.GridSearchCV` (its best estimator
        answers), a :class:`~sklearn.frozen.FrozenEstimator` or a
        :class:`~sklearn.calibration.CalibratedClassifierCV` (the mean over its members),
        nested in any way.
    X : array-like of shape (n_samples, ...)
        Samples, in the form that `estimator` predicts on.
    kind : {"total", "aleatoric", "epistemic"} or None, default=None
        Kind of uncertainty. None is the estimator's own default, the first of its
        `uncertainty_kinds_`.

    Returns
    -------
    uncertainty : ndarray of shape (n_samples,)
        Uncertainties, float64, higher where less sure, in the unit that the innermost
        estimator names in `uncertainty_units_`.

    Raises
    ------
    TypeError
        If `estimator` neither has `predict_uncertainty` nor holds an estimator that does.
    NotFittedError
        If `estimator` is not fitted.
    ValueError
        If the innermost estimator does not define `kind`.

    Notes
    -----
    Calibration changes the probabilities, not the uncertainty: that of a
    `CalibratedClassifierCV` is that of the models which it calibrates.

    Examples
    --------
    Any classifier takes part by having the method, a random forest for example:

    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_probly.measures import decompose
    >>> from sklearn_probly.uncertainty import predict_uncertainty
    >>> class UnsureForest(RandomForestClassifier):
    ...     def predict_uncertainty(self, X, kind="total"):
    ...         members = [tree.predict_proba(X) for tree in self.estimators_]
    ...         return getattr(decompose(members), kind)
    >>> X, y = load_iris(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), UnsureForest(n_estimators=10, random_state=0))
    >>> uncertainty = predict_uncertainty(pipe.fit(X, y), X, kind="epistemic")
    >>> uncertainty.shape
    (150,)
    >>> bool(uncertainty[y == 0].mean() < uncertainty.mean())  # setosa stands apart
    True
    """
    return _predict(estimator, X, {} if kind is None else {"kind": kind}, ())


def cross_val_uncertainty(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    kind: Kind | None = None,
    cv: Any = None,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """Predict the uncertainty of each row with a model that was not trained on it.

    For ranking training rows: the most uncertain ones are worth a second look at their labels.
    :func:`sklearn.model_selection.cross_val_predict` takes no `predict_uncertainty`.

    Parameters
    ----------
    estimator : estimator instance
        As in `predict_uncertainty`, not necessarily fitted; it is cloned.
    X : array-like of shape (n_samples, ...)
        Rows: an array, a data frame, a list or a sparse matrix, whatever `estimator` takes.
    y : array-like of shape (n_samples,)
        Labels.
    kind : {"total", "aleatoric", "epistemic"} or None, default=None
        Kind of uncertainty. None is the estimator's own default, the first of its
        `uncertainty_kinds_`.
    cv : int, cross-validation generator, iterable or None, default=None
        As in :func:`sklearn.model_selection.cross_val_predict`: None is 5 folds, an int that many,
        stratified for classifiers. Each row must be in exactly one test fold. For folds that need
        groups, give the list of them: ``list(GroupKFold().split(X, y, groups))``.
    n_jobs : int or None, default=None
        Number of folds that are fitted at a time; None is 1, or that of the joblib context.

    Returns
    -------
    uncertainty : ndarray of shape (n_samples,)
        Out-of-fold uncertainties, float64, in the order and number of the rows of `X`, higher where
        less sure, in the unit that the estimator names in `uncertainty_units_`. Those of different
        folds come from different models.

    Raises
    ------
    ValueError
        If a row is in no test fold or in several, if a fold names a row that there is not, if `X`
        and `y` differ in length, or if the estimator does not define `kind`.
    TypeError
        If `estimator` neither has `predict_uncertainty` nor holds an estimator that does.

    See Also
    --------
    predict_uncertainty : The uncertainty of rows by an estimator that is fitted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_probly import HetNetClassifier, cross_val_uncertainty
    >>> X, y = load_iris(return_X_y=True)
    >>> estimator = HetNetClassifier(max_epochs=20, random_state=0)
    >>> uncertainty = cross_val_uncertainty(estimator, X, y, cv=3)
    >>> bool(uncertainty[y == 0].mean() < uncertainty[y == 1].mean())  # setosa stands apart
    True
    """
    X, y = indexable(X, y)
    folds = list(check_cv(cv, y, classifier=is_classifier(estimator)).split(X, y))
    _check_partition(folds, len(y))
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_predict)(clone(estimator), X, y, train, test, kind)
        for train, test in folds
    )
    uncertainty = np.empty(len(y))
    for (_, test), part in zip(folds, parts, strict=True):
        uncertainty[test] = part
    return uncertainty


def _check_partition(folds: list[tuple[Any, Any]], n_samples: int) -> None:
    """Raise unless each row is in exactly one test fold."""
    tested = np.concatenate([np.empty(0, dtype=int), *(test for _, test in folds)])
    rows = np.arange(n_samples)
    if not np.array_equal(np.sort(tested), rows):
        found, times = np.unique(tested, return_counts=True)
        raise ValueError(
            f"Each of the {n_samples} rows must be in exactly one test fold of cv; "
            f"{len(np.setdiff1d(rows, found))} are in none, {(times > 1).sum()} in several, and "
            f"{len(np.setdiff1d(found, rows))} of its row numbers are not from 0 to "
            f"{n_samples - 1}. Use a partition, such as StratifiedKFold."
        )


def _fit_and_predict(
    estimator: Any, X: Any, y: Any, train: Any, test: Any, kind: Kind | None
) -> NDArray[np.float64]:
    estimator.fit(_safe_indexing(X, train), _safe_indexing(y, train))
    return predict_uncertainty(estimator, _safe_indexing(X, test), kind)


def _predict(
    estimator: Any, X: Any, kwargs: dict[str, Any], path: tuple[str, ...]
) -> NDArray[np.float64]:
    if hasattr(estimator, "predict_uncertainty"):
        return estimator.predict_uncertainty(X, **kwargs)
    path, transformer, inner = _open(estimator, path)
    if transformer is not None:
        X = transformer.transform(X)
    return np.mean([_predict(each, X, kwargs, path) for each in inner], axis=0)


def _innermost(estimator: Any, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield the estimators that answer for `estimator`: one, or each member that is calibrated."""
    if hasattr(estimator, "predict_uncertainty"):
        yield estimator
    else:
        path, _, inner = _open(estimator, path)
        for each in inner:
            yield from _innermost(each, path)


def _open(
    estimator: Any, path: tuple[str, ...]
) -> tuple[tuple[str, ...], Pipeline | None, list[Any]]:
    """Take one wrapper off: its path, what transforms X on the way in, and what it holds."""
    name = repr(estimator) if isinstance(estimator, str) else type(estimator).__name__
    path = (*path, name)
    if hasattr(estimator, "fit") and not isinstance(estimator, type):
        check_is_fitted(estimator)
    if isinstance(estimator, Pipeline):
        return path, estimator[:-1] if len(estimator) > 1 else None, [estimator[-1]]
    if hasattr(estimator, "best_estimator_"):
        return path, None, [estimator.best_estimator_]
    if isinstance(estimator, FrozenEstimator):
        return path, None, [estimator.estimator]
    if isinstance(estimator, CalibratedClassifierCV):
        return path, None, [each.estimator for each in estimator.calibrated_classifiers_]
    raise TypeError(
        f"No estimator with predict_uncertainty was found; got {' -> '.join(path)}. Pass a fitted "
        "estimator that has it, or a Pipeline, a search (with refit=True), a FrozenEstimator or a "
        "CalibratedClassifierCV that holds one."
    )
