"""Training in pieces, a pass at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ._base import BaseTorchClassifier, gradients
from ._context import FitContext
from ._device import resolve_device
from ._progress import Progress
from ._random import Streams
from ._validation import check_training_rows


class PartialFitClassifier(BaseTorchClassifier):
    """`partial_fit` for methods whose main phase can go on with other rows."""

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Train for one pass over the rows given, on from what was learned before.

        Only the main phase is run, without early stopping; optimizer and history go on from call
        to call (the optimizer starts anew after unpickling). `max_epochs` is not used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Some training rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels there are; needed in the first call, may be left out later.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0 of the rows, relative to their mean in this call; those of `class_weight`
            count as they are.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If `classes` is missing in the first call or differs from that of an earlier one, if `y`
            holds other labels, or as in `fit`. Only a loss that is not finite leaves the estimator
            unfitted; another error or an interrupt in the middle of the pass keeps the steps made.
        """
        former = getattr(self, "net_", None)
        with gradients(), self._undone_on_error():
            self._check_params(former)
            if self.class_weight == "balanced":
                raise ValueError(
                    "class_weight='balanced' needs all rows at once and cannot be used with "
                    "partial_fit; give a dict of weights."
                )
            known = self._known_classes(classes)
            device = resolve_device(self.device)
            train, known, _ = check_training_rows(
                self, X, y, sample_weight, device, classes=known, reset=former is None
            )
            seed = (
                check_random_state(self.random_state).randint(2**31 - 1)
                if former is None
                else former.seed_
            )
            n_passes = 0 if former is None else len(former.history)
            with Progress(1, disable=not self.verbose) as progress:
                net = self._run(
                    FitContext(
                        train,
                        None,
                        len(known),
                        Streams(seed, n_passes),
                        device,
                        progress,
                        former=None if former is None else former.module_,
                        single_pass=True,
                        net=former,
                    )
                )
        self._keep(net, known)
        return self

    def _known_classes(self, classes: ArrayLike | None) -> Any:
        fitted = getattr(self, "classes_", None)
        if classes is None:
            if fitted is None:
                raise ValueError("classes must be given in the first call to partial_fit.")
            return fitted
        check_classification_targets(column_or_1d(classes))
        given = np.unique(classes)
        if fitted is not None and not np.array_equal(given, fitted):
            raise ValueError(
                f"classes={given.tolist()} differ from those of earlier calls, {fitted.tolist()}."
            )
        return given
