"""Deep anti-regularized ensembles."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..modules.dare import AntiRegularizedCrossEntropy
from ._base import BaseTorchClassifier
from ._context import FitContext
from ._ensemble import BaseEnsembleClassifier
from ._net import MemberNet


class DAREEnsembleClassifier(BaseEnsembleClassifier):
    r"""Deep anti-regularized ensemble (DARE) of neural networks.

    Members are trained independently. Where a member's batch loss is at most `threshold`, its
    weights are also pushed outward, by the gradient of
    :math:`-\frac1d \sum_k \log(\theta_k^2 + \epsilon)`: directions that the data leave free
    grow, so that members disagree away from the data [1]_. Weight decay works against it.
    ``reg_weight=0`` is a plain deep ensemble, and so is one whose losses, in ``history_``, never
    get to `threshold`.

    Scale the features. Like other networks, members grow sure, and may agree, on rows many times
    beyond the range of the training data: check ranges first.

    The uncertainty is in bits: ``"total"`` is the entropy of the mean of the members' class
    probabilities, ``"aleatoric"`` the mean of their entropies, ``"epistemic"`` the difference, at
    most log2 of `num_members`.

    Parameters
    ----------
    num_members : int, default=5
        Number of networks, >= 1.
    threshold : float, default=0.3
        Batch loss, nats, up to which weights are pushed outward: any number; ``-inf`` never,
        ``inf`` always.
    reg_weight : float, default=0.1
        Factor of the anti-regularization, >= 0. The paper has no such factor, which is 1; 0.1 gives
        better probabilities, and tells data out of distribution better, on images of digits.
    hidden_layer_sizes : sequence of int, default=(256, 256)
        Widths, >= 1, of the hidden layers of the default network; empty is a linear model.
    activation : {"relu", "gelu", "silu", "tanh"}, default="relu"
        Activation after each hidden layer of the default network.
    dropout : float, default=0.1
        Dropout probability in [0, 1) after each hidden layer of the default network.
    num_embedding : {"auto", "piecewise_linear", "periodic"} or None, default="auto"
        What stands in for each feature in the default network: how far it is through each of up to
        24 bins, sines and cosines of it, or, None, the feature itself. The bins are those of the
        training rows (of the first call of `partial_fit`). "auto" is "piecewise_linear" up to 128
        features, and None from there on.
    module : type, torch.nn.Module or callable, default=None
        A network of your own that maps rows to logits ``(n, n_classes)``: a class, called with the
        ``module__...`` parameters; an instance, copied and re-initialised for each member; or a
        callable ``(n_features, n_classes, **module_params) -> torch.nn.Module``. None is the
        default network.
    max_epochs : int, default=200
        Most passes over the training rows, >= 1.
    lr : float, default=2e-3
        Learning rate, > 0.
    batch_size : int, default=256
        Rows a step, and rows a chunk at prediction, >= 1.
    optimizer : type, default=torch.optim.Adam
        Optimizer class. It should treat each weight by itself, as Adam and SGD do; LBFGS searches
        along one line for all members together.
    early_stopping : bool or "auto", default="auto"
        Hold out validation rows, stop after `n_iter_no_change` epochs without a gain in the loss of
        the mean of the members' probabilities, and keep the best weights. "auto" does so from 500
        rows on.
    validation_fraction : float, default=0.1
        Share of the rows held out, in (0, 1), stratified; a class with one row stays in training.
    n_iter_no_change : int, default=10
        Epochs without gain, >= 1, after which training stops.
    tol : float, default=1e-4
        Least gain in validation loss that counts, nats, >= 0.
    stop_accuracy : float, default=None
        Stop a member after an epoch whose running training accuracy, in (0, 1], reaches it.
    class_weight : dict or "balanced", default=None
        Weight of each label; "balanced" is inverse to its frequency.
    dtype : {"float32", "float64"}, default="float32"
        Type of weights and probabilities. Uncertainties are float64.
    device : str or torch.device, default="auto"
        Where to train and predict. "auto" is CUDA where there is one.
    random_state : int, RandomState instance or None, default=None
        Fixes weights, validation rows, batches and dropout. One seed is drawn from it in `fit`.
    warm_start : bool, default=False
        Whether a second `fit` goes on from the fitted weights.
    verbose : int, default=0
        1 draws a progress bar, 2 also prints skorch's table.
    callbacks : list, default=None
        skorch callbacks. They are copied in `fit`; the ones used are in ``net_.callbacks_``.
    **skorch_params : dict
        skorch's ``prefix__name`` parameters, as ``optimizer__weight_decay=1e-4``, with the prefixes
        ``callbacks``, ``criterion``, ``iterator_train``, ``module`` and ``optimizer``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` had names that are all strings.
    n_iter_ : int
        Number of epochs run.
    net_ : skorch.NeuralNet
        The trained net.
    module_ : torch.nn.Module
        The trained members, ``(n, n_features) -> (num_members, n, n_classes)``.
    history_ : skorch.history.History
        For each epoch ``train_loss`` (nats) and ``train_accuracy``, means over the members,
        ``valid_loss`` (nats), that of the mean of their probabilities, and each member's own as
        ``member_train_loss`` and so on; ``member_active`` tells which were still training.
    uncertainty_kinds_ : tuple of str
        ``("total", "aleatoric", "epistemic")``.
    uncertainty_units_ : dict
        The unit of each kind, ``"bits"``.

    References
    ----------
    .. [1] A. de Mathelin, F. Deheeger, M. Mougeot, N. Vayatis. "Deep Anti-Regularized Ensembles
       provide reliable out-of-distribution uncertainty quantification". arXiv 2304.04042, 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_probly import DAREEnsembleClassifier, predict_uncertainty
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), DAREEnsembleClassifier(random_state=0))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    >>> predict_uncertainty(model, X).shape
    (150,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseTorchClassifier._parameter_constraints,
        "num_members": [Interval(Integral, 1, None, closed="left")],
        "threshold": [Interval(Real, -np.inf, np.inf, closed="both")],
        "reg_weight": [Interval(Real, 0, None, closed="left")],
    }

    _structural_params: ClassVar[tuple[str, ...]] = (
        *BaseTorchClassifier._structural_params,
        "num_members",
    )

    def __init__(
        self,
        *,
        num_members: int = 5,
        threshold: float = 0.3,
        reg_weight: float = 0.1,
        **params: Any,
    ) -> None:
        super().__init__(**params)
        self.num_members = num_members
        self.threshold = threshold
        self.reg_weight = reg_weight

    def _fit_phases(self, fit: FitContext) -> MemberNet:
        return self._train(
            fit,
            "members",
            fit.former or self._independent_members(fit, self.num_members),
            AntiRegularizedCrossEntropy,
            criterion__threshold=self.threshold,
            criterion__reg_weight=self.reg_weight,
        )
