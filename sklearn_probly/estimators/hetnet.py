"""HetNet: heteroscedastic networks."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from ..modules.conversion import split_head
from ..modules.heteroscedastic import HeteroscedasticNetwork
from ..modules.losses import MemberCrossEntropy
from ..modules.members import entropy
from ._base import BaseTorchClassifier
from ._context import FitContext
from ._net import MemberNet
from ._partial_fit import PartialFitClassifier


class HetNetClassifier(PartialFitClassifier):
    r"""HetNet: a network that learns the noise of the labels from the features.

    The logits are normal, with a mean and a low-rank covariance that depend on the features; the
    class probabilities are the mean of their softmax [1]_. The loss is the logarithm of that mean.

    The uncertainty is the entropy of the class probabilities, in bits. All of it is
    ``"aleatoric"``: the noise of the logits stands for that of the labels, and there is one
    network, which cannot disagree with itself; ``"total"`` is the same.

    Parameters
    ----------
    num_factors : int, default=None
        Rank, >= 0, of the covariance that logits share; 0 is independent noise. None is the number
        of classes, at most 10.
    temperature : float, default=1.0
        Divides the noisy logits, > 0.
    training_samples : int, default=4
        Draws of the noise at each step of training, >= 1; not used for two classes.
    num_samples : int, default=256
        Draws at prediction, >= 1, of a sequence that converges faster than independent ones; not
        used for two classes, where the mean is an integral in one dimension, computed to 1e-6.
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
        ``module__...`` parameters; an instance, copied and re-initialised; or a callable
        ``(n_features, n_classes, **module_params) -> torch.nn.Module``. Its output must be that of
        a `torch.nn.Linear`, which gives the mean. None is the default network.
    max_epochs : int, default=200
        Most passes over the training rows, >= 1.
    lr : float, default=2e-3
        Learning rate, > 0.
    batch_size : int, default=256
        Rows a step, and rows a chunk at prediction, >= 1.
    optimizer : type, default=torch.optim.Adam
        Optimizer class.
    early_stopping : bool or "auto", default="auto"
        Hold out validation rows, stop after `n_iter_no_change` epochs without a gain in validation
        loss, and keep the best weights. "auto" does so from 500 rows on.
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
        Fixes weights, noise, validation rows, batches and dropout. One seed is drawn from it in
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
        The trained network, ``(n, n_features) -> (1, n, n_classes)``, log-probabilities.
    history_ : skorch.history.History
        For each epoch ``train_loss`` and ``valid_loss`` (nats) and ``train_accuracy``.
    uncertainty_kinds_ : tuple of str
        ``("total", "aleatoric")``.
    uncertainty_units_ : dict
        The unit of each kind, ``"bits"``.

    References
    ----------
    .. [1] M. Collier, B. Mustafa, E. Kokiopoulou, R. Jenatton, J. Berent. "Correlated Input-
       Dependent Label Noise in Large-Scale Image Classification". CVPR 2021, arXiv 2105.10305.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_probly import HetNetClassifier, predict_uncertainty
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), HetNetClassifier(random_state=0))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    >>> predict_uncertainty(model, X).shape
    (150,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseTorchClassifier._parameter_constraints,
        "num_factors": [None, Interval(Integral, 0, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "training_samples": [Interval(Integral, 1, None, closed="left")],
        "num_samples": [Interval(Integral, 1, None, closed="left")],
    }
    _structural_params: ClassVar[tuple[str, ...]] = (
        *BaseTorchClassifier._structural_params,
        "num_factors",
        "temperature",
        "training_samples",
        "num_samples",
    )
    _uncertainty_units: ClassVar[dict[str, str]] = {"total": "bits", "aleatoric": "bits"}
    _undefined_kinds: ClassVar[dict[str, str]] = {
        "epistemic": (
            "its noise is label noise, which is aleatoric, and a single network has no other "
            "opinion to disagree with"
        )
    }

    def __init__(
        self,
        *,
        num_factors: int | None = None,
        temperature: float = 1.0,
        training_samples: int = 4,
        num_samples: int = 256,
        **params: Any,
    ) -> None:
        super().__init__(**params)
        self.num_factors = num_factors
        self.temperature = temperature
        self.training_samples = training_samples
        self.num_samples = num_samples

    def _fit_phases(self, fit: FitContext) -> MemberNet:
        return self._train(
            fit,
            "network",
            fit.former or self._noisy_network(fit),
            MemberCrossEntropy,
        )

    def _noisy_network(self, fit: FitContext) -> HeteroscedasticNetwork:
        backbone, mean = split_head(self._network(fit), fit.train.X[:2])
        num_factors = self.num_factors
        return HeteroscedasticNetwork(
            backbone,
            mean,
            num_factors=min(fit.n_classes, 10) if num_factors is None else num_factors,
            temperature=self.temperature,
            training_samples=self.training_samples,
            num_samples=self.num_samples,
            generator=fit.streams.torch("noise"),
        )

    def predict_noise_information(self, X: ArrayLike) -> NDArray[np.float64]:
        r"""Return how much the noise on the logits would tell of the label if it were known.

        The entropy of the class distribution less the mean entropy once the noise is known,
        :math:`H(\bar p) - E_u\, H(softmax(u / \tau))`: the mutual information of label and noise.
        It is near the total where the noise decides the label, and 0 where there is none; both
        parts are label noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            Bits, between 0 and ``predict_uncertainty(X)``.
        """
        rows = self._check_rows(X)
        chunks = [parts[1].cpu().numpy() for _, parts in self._chunks(rows, _noise_information)]
        return np.concatenate(chunks)

    def _predict_chunk(
        self, module: nn.Module, rows: Tensor, kind: str | None
    ) -> tuple[Tensor, Tensor]:
        proba = module(rows)[0].double().softmax(-1)
        return proba, entropy(proba) if kind else proba


def _noise_information(module: nn.Module, rows: Tensor) -> tuple[Tensor, Tensor]:
    proba = module(rows)[0].double().softmax(-1)
    return proba, (entropy(proba) - module.mean_entropy(rows)).clamp_(min=0)  # type: ignore[operator]
