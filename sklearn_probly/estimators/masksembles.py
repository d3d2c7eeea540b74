"""Masksembles."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..modules.losses import MemberCrossEntropy
from ..modules.masks import Masksembles
from ._base import BaseTorchClassifier
from ._context import FitContext
from ._ensemble import BaseEnsembleClassifier
from ._net import MemberNet


class MasksemblesClassifier(BaseEnsembleClassifier):
    """Masksembles: one network whose members use different, overlapping sets of its hidden units.

    Fixed masks, made at the start, say which units a member uses; `scale` sets how much they
    overlap, from one network (1) towards an ensemble of small independent ones [1]_. In training
    each row is given one mask, all masks equally often; at prediction each row is given every
    mask. Members are smaller than the network (136 of 256 units with the defaults): widen
    `hidden_layer_sizes` where accuracy matters.

    The uncertainty is in bits: ``"total"`` is the entropy of the mean of the members' class
    probabilities, ``"aleatoric"`` the mean of their entropies, ``"epistemic"`` the difference, at
    most log2 of `num_masks`.

    Parameters
    ----------
    num_masks : int, default=8
        Number of masks, each a member, >= 1.
    scale : float, default=2.0
        How much masks differ, >= 1: two masks share about 1 / (2 scale - 1) of the units of either.
        1 is a single network; more makes members more diverse, and smaller.
    hidden_layer_sizes : sequence of int, default=(256, 256)
        Widths, >= 1, of the hidden layers of the default network; at least one.
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
        ``module__...`` parameters; an instance, copied and re-initialised; or a callable
        ``(n_features, n_classes, **module_params) -> torch.nn.Module``. The inputs of its
        `torch.nn.Linear` and `torch.nn.Conv2d` layers but the first are masked, of a convolution
        by channel. None is the default network.
    max_epochs : int, default=200
        Most passes over the training rows, >= 1.
    lr : float, default=2e-3
        Learning rate, > 0.
    batch_size : int, default=256
        Rows a step, and rows a chunk at prediction, >= 1.
    optimizer : type, default=torch.optim.Adam
        Optimizer class.
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
        Stop after an epoch whose running training accuracy, in (0, 1], reaches it.
    class_weight : dict or "balanced", default=None
        Weight of each label; "balanced" is inverse to its frequency.
    dtype : {"float32", "float64"}, default="float32"
        Type of weights and probabilities. Uncertainties are float64.
    device : str or torch.device, default="auto"
        Where to train and predict. "auto" is CUDA where there is one.
    random_state : int, RandomState instance or None, default=None
        Fixes weights, masks, validation rows, batches and dropout. One seed is drawn from it in
        `fit`.
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
        The trained network with its masks.
    history_ : skorch.history.History
        For each epoch ``train_loss`` and ``valid_loss`` (nats) and ``train_accuracy``.
    uncertainty_kinds_ : tuple of str
        ``("total", "aleatoric", "epistemic")``.
    uncertainty_units_ : dict
        The unit of each kind, ``"bits"``.

    References
    ----------
    .. [1] N. Durasov, T. Bagautdinov, P. Baque, P. Fua. "Masksembles for Uncertainty Estimation".
       CVPR 2021, arXiv 2012.08334.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_probly import MasksemblesClassifier, predict_uncertainty
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), MasksemblesClassifier(random_state=0))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    >>> predict_uncertainty(model, X).shape
    (150,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseTorchClassifier._parameter_constraints,
        "num_masks": [Interval(Integral, 1, None, closed="left")],
        "scale": [Interval(Real, 1, None, closed="left")],
    }
    _structural_params: ClassVar[tuple[str, ...]] = (
        *BaseTorchClassifier._structural_params,
        "num_masks",
        "scale",
    )

    def __init__(self, *, num_masks: int = 8, scale: float = 2.0, **params: Any) -> None:
        super().__init__(**params)
        self.num_masks = num_masks
        self.scale = scale

    def _fit_phases(self, fit: FitContext) -> MemberNet:
        return self._train(
            fit,
            "network",
            fit.former or self._masked_network(fit),
            MemberCrossEntropy,
        )

    def _masked_network(self, fit: FitContext) -> Masksembles:
        generator = fit.streams.torch("masks")
        return Masksembles(
            self._network(fit), fit.train.X[:2], self.num_masks, self.scale, generator
        )
