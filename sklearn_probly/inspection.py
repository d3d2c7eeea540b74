"""Displays: look at what a model is unsure of. matplotlib is imported only when one is drawn."""

from math import ceil, isqrt, prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from sklearn_probly.metrics._checks import check_uncertainty
from sklearn_probly.uncertainty import Kind, _innermost, predict_uncertainty

__all__ = ["MostUncertainDisplay"]

_COLUMNS = 5
_TITLE_WIDTH = 24  # characters that fit above an image two inches wide


class MostUncertainDisplay:
    """The images that a classifier is least sure of, with label, prediction and uncertainty.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`; all parameters are stored
    as attributes.

    Parameters
    ----------
    images : ndarray of shape (n_images, height, width) or (n_images, height, width, 3)
        Images to show, grey or colour.
    y_true : ndarray of shape (n_images,)
        Their true labels.
    y_pred : ndarray of shape (n_images,)
        Their predicted labels.
    uncertainty : ndarray of shape (n_images,)
        Uncertainty of each prediction.
    unit : str or None, default="bits"
        Unit of `uncertainty`. None writes the bare number.
    indices : ndarray of shape (n_images,) or None, default=None
        Row of each image in the data that it was taken from. Stored, not drawn.

    Attributes
    ----------
    ax_ : ndarray of shape (n_images,) of matplotlib Axes
        Axes of the images.
    figure_ : matplotlib Figure
        Figure that holds them.

    See Also
    --------
    sklearn_probly.uncertainty.predict_uncertainty : The numbers that rank the images.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_probly.inspection import MostUncertainDisplay
    >>> from sklearn_probly.measures import entropy
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = GaussianNB().fit(X, y)
    >>> display = MostUncertainDisplay.from_predictions(
    ...     X, y, clf.predict(X), entropy(clf.predict_proba(X)), ax=Figure().subplots(1, 5)
    ... )
    >>> display.images.shape
    (5, 8, 8)
    """

    def __init__(
        self,
        images: NDArray[Any],
        y_true: NDArray[Any],
        y_pred: NDArray[Any],
        uncertainty: NDArray[np.float64],
        *,
        unit: str | None = "bits",
        indices: NDArray[np.intp] | None = None,
    ) -> None:
        self.images = images
        self.y_true = y_true
        self.y_pred = y_pred
        self.uncertainty = uncertainty
        self.unit = unit
        self.indices = indices

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        kind: Kind | None = None,
        n_images: int = 5,
        image_shape: tuple[int, ...] | None = None,
        ax: Any = None,
    ) -> Self:
        """Show the images of `X` that a fitted estimator is least sure of.

        Parameters
        ----------
        estimator : estimator instance
            Fitted classifier with `predict_uncertainty`, or a pipeline, search, frozen or
            calibrated classifier that holds one. See
            :func:`~sklearn_probly.uncertainty.predict_uncertainty`.
        X : array-like of shape (n_samples, ...)
            Images, in the form that `estimator` predicts on and in one of the forms that
            :meth:`from_predictions` takes.
        y : array-like of shape (n_samples,)
            True labels.
        kind : {"total", "aleatoric", "epistemic"} or None, default=None
            Kind of uncertainty. None is the estimator's own default. The unit that is shown is
            the one that the estimator names for it in `uncertainty_units_`, if it names one.
        n_images : int, default=5
            Most images to show, >= 1.
        image_shape : (height, width), (height, width, 3) or None, default=None
            Shape of one image. See :meth:`from_predictions`.
        ax : matplotlib Axes, array-like of Axes or None, default=None
            Where to draw. See :meth:`plot`.

        Returns
        -------
        display : MostUncertainDisplay
            The drawn display.

        Raises
        ------
        ImportError, ValueError
            As :meth:`from_predictions`.
        TypeError, NotFittedError
            As :func:`~sklearn_probly.uncertainty.predict_uncertainty`.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from sklearn_probly.inspection import MostUncertainDisplay
        >>> from sklearn_probly.measures import entropy
        >>> class UnsureForest(RandomForestClassifier):
        ...     uncertainty_kinds_ = ("total",)
        ...     uncertainty_units_ = {"total": "bits"}
        ...
        ...     def predict_uncertainty(self, X, kind=None):
        ...         return entropy(self.predict_proba(X))
        >>> X, y = load_digits(return_X_y=True)
        >>> forest = UnsureForest(n_estimators=10, random_state=0).fit(X[:900], y[:900])
        >>> display = MostUncertainDisplay.from_estimator(
        ...     forest, X[900:], y[900:], n_images=3, ax=Figure().subplots(1, 3)
        ... )
        >>> display.unit
        'bits'
        """
        inner = next(_innermost(estimator))
        shown = kind or next(iter(getattr(inner, "uncertainty_kinds_", ())), None)
        return cls.from_predictions(
            X,
            y,
            estimator.predict(X),
            predict_uncertainty(estimator, X, kind),
            unit=getattr(inner, "uncertainty_units_", {}).get(shown),
            n_images=n_images,
            image_shape=image_shape,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        X: ArrayLike,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        uncertainty: ArrayLike,
        *,
        unit: str | None = "bits",
        n_images: int = 5,
        image_shape: tuple[int, ...] | None = None,
        ax: Any = None,
    ) -> Self:
        """Show the images of `X` whose predictions are least sure.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Images: flattened, of shape (height, width), or with 1 or 3 channels, first or last.
            Grey values are drawn from the least (black) to the greatest (white) of those shown;
            colours are floats in [0, 1] or integers in [0, 255].
        y_true : array-like of shape (n_samples,)
            True labels.
        y_pred : array-like of shape (n_samples,)
            Predicted labels.
        uncertainty : array-like of shape (n_samples,)
            Uncertainty of each prediction, higher where less sure; finite. The most uncertain
            comes first, equal ones in the order of their rows.
        unit : str or None, default="bits"
            Unit of `uncertainty`. None writes the bare number.
        n_images : int, default=5
            Most images to show, >= 1; all of them if there are fewer.
        image_shape : (height, width), (height, width, 3) or None, default=None
            Shape of one image. None keeps the shape of images that are not flattened, and takes
            flattened ones as grey and square.
        ax : matplotlib Axes, array-like of Axes or None, default=None
            Where to draw. See :meth:`plot`.

        Returns
        -------
        display : MostUncertainDisplay
            The drawn display.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If an argument is empty, has the wrong shape or length, `uncertainty` is not finite,
            `n_images` is less than 1, the shape of an image cannot be told, or `ax` has fewer
            axes than there are images.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sklearn_probly.inspection import MostUncertainDisplay
        >>> X = [[0.0, 0.2, 0.4, 0.6], [0.6, 0.4, 0.2, 0.0]]
        >>> display = MostUncertainDisplay.from_predictions(
        ...     X, [4, 9], [9, 9], [1.234, 0.5], n_images=1, ax=Figure().subplots()
        ... )
        >>> print(display.ax_[0].get_title())
        true 4, predicted 9
        1.23 bits
        """
        if n_images < 1:
            raise ValueError(f"n_images must be at least 1; got {n_images}. Pass 1 or more.")
        scores = check_uncertainty(uncertainty)
        pixels = np.asarray(X)
        true, pred = np.asarray(column_or_1d(y_true)), np.asarray(column_or_1d(y_pred))
        check_consistent_length(pixels, true, pred, scores)
        top = np.argsort(-scores, kind="stable")[:n_images]
        images = _as_images(pixels[top], image_shape)
        display = cls(images, true[top], pred[top], scores[top], unit=unit, indices=top)
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the images, each with true label, prediction and uncertainty as its title.

        A wrong prediction has "wrong" written below its image, and a red title.

        Parameters
        ----------
        ax : matplotlib Axes, array-like of Axes or None, default=None
            Where to draw: at least one Axes for each image, further ones are left alone. None
            makes a new figure, with five images a row.

        Returns
        -------
        display : MostUncertainDisplay
            The display itself, with `ax_` and `figure_` set.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If `ax` has fewer axes than there are images.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from sklearn_probly.inspection import MostUncertainDisplay
        >>> display = MostUncertainDisplay(np.eye(3)[None], [1], [7], [0.7], unit="nats")
        >>> display = display.plot(ax=Figure().subplots())
        >>> print(display.ax_[0].get_title())
        true 1, predicted 7
        0.70 nats
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "MostUncertainDisplay needs matplotlib, which is not installed. "
                "Run: pip install 'sklearn-probly[plot]'"
            ) from error

        n_images = len(self.images)
        if ax is None:
            columns = min(n_images, _COLUMNS)
            rows = ceil(n_images / columns)
            figure = plt.figure(figsize=(2 * columns, 2.8 * rows), layout="constrained")
            axes = np.array([figure.add_subplot(rows, columns, i + 1) for i in range(n_images)])
        else:
            axes = np.ravel(np.asarray(ax, dtype=object))[:n_images]
        if len(axes) < n_images:
            raise ValueError(
                f"ax must have at least one Axes for each of the {n_images} images; got "
                f"{len(axes)}. Pass more, lower n_images, or leave ax=None for a new figure."
            )
        grey = {
            "cmap": "gray",
            "vmin": float(np.min(self.images)),
            "vmax": float(np.max(self.images)),
        }
        style = grey if self.images.ndim == 3 else {}
        rows_shown = zip(axes, self.images, self.y_true, self.y_pred, self.uncertainty, strict=True)
        for axis, image, true, pred, uncertainty in rows_shown:
            wrong = true != pred
            labels = f"true {true}, predicted {pred}"
            if len(labels) > _TITLE_WIDTH:
                labels = labels.replace(", predicted", ",\npredicted")
            axis.imshow(image, **style)
            axis.set_title(
                f"{labels}\n{uncertainty:.2f} {self.unit or ''}".rstrip(),
                fontsize="medium",
                **({"color": "tab:red"} if wrong else {}),
            )
            axis.set(xticks=[], yticks=[], xlabel="wrong" if wrong else "right")
        self.ax_ = axes
        self.figure_ = axes[0].figure
        return self


def _as_images(X: NDArray[Any], image_shape: tuple[int, ...] | None) -> NDArray[Any]:
    """Give images the form that matplotlib draws: (n, height, width) or (n, height, width, 3)."""
    if X.ndim == 4 and X.shape[1] in (1, 3) and X.shape[3] not in (1, 3):
        X = np.moveaxis(X, 1, -1)  # channels first, as torch has them
    shape = tuple(X.shape[1:] if image_shape is None else image_shape)
    if image_shape is None and X.ndim == 2:
        side = isqrt(X.shape[1])
        shape = (side, side)
    if shape[2:] == (1,):
        shape = shape[:2]
    if len(shape) < 2 or shape[2:] not in ((), (3,)) or prod(shape) != prod(X.shape[1:]):
        raise ValueError(
            f"image_shape must be (height, width) or (height, width, 3) and fit a row of X; got "
            f"{image_shape} for rows of shape {X.shape[1:]}. Pass the image_shape of one row."
        )
    return X.reshape(len(X), *shape)
