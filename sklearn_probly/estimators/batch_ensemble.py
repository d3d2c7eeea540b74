"""BatchEnsemble."""

from __future__ import annotations

import inspect
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from ..modules.batch_ensemble import BatchEnsemble, Scaling
from ..modules.losses import MemberCrossEntropy
from ..modules.members import IndependentMembers
from ._base import BaseTorchClassifier
from ._context import FitContext
from ._ensemble import BaseEnsembleClassifier
from ._net import MemberNet


class BatchEnsembleClassifier(BaseEnsembleClassifier):
    r"""BatchEnsemble: members that share each weight matrix and differ by rank-one factors.

    Member i uses the weights :math:`diag(s_i) W diag(r_i)` and biases of its own [1]_. All members
    are trained together, each on every row of a batch and each with a loss of its own; with
    `pretrain_epochs`, the shared network is trained alone first, and then given the factors.

    The uncertainty is in bits: ``"total"`` is the entropy of the mean of the members' class
    probabilities, ``"aleatoric"`` the mean of their entropies, ``"epistemic"`` the difference, at
    most log2 of `num_members`. Members share nearly all weights, so they disagree little: take
    ``"epistemic"`` as a ranking.

    Parameters
    ----------
    num_members : int, default=8
        Number of members, >= 1.
    scaling_init : {"normal", "random_sign", "tabm"}, default="tabm"
        How the factors start. "normal": r ~ N(`r_mean`, `r_std`^2), s ~ N(`s_mean`, `s_std`^2).
        "random_sign": each factor is -1 or 1, as in the paper, which keeps all magnitudes. "tabm":
        the factors of the first layer's inputs are -1 or 1, all others 1 [2]_.
    r_mean : float, default=1.0
        Mean of the factors of inputs, under "normal".
    r_std : float, default=0.5
        Their standard deviation, >= 0.
    s_mean : float, default=1.0
        Mean of the factors of outputs, under "normal".
    s_std : float, default=0.5
        Their standard deviation, >= 0.
    pretrain_epochs : int, default=0
        Most passes in which the shared network is trained alone, >= 0, first; the published
        experiment has 5. With 0 the members are trained from the start, with `lr`.
    finetune_lr : float, default=1e-4
        Learning rate, > 0, of the members after pre-training.
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
        ``(n_features, n_classes, **module_params) -> torch.nn.Module``. Its `torch.nn.Linear` and
        `torch.nn.Conv2d` layers get factors; normalisation layers are shared. None is the default
        network.
    max_epochs : int, default=200
        Most passes over the training rows in the members' phase, >= 1.
    lr : float, default=2e-3
        Learning rate, > 0: of pre-training, of members that are not pre-trained, and of
        `partial_fit`.
    batch_size : int, default=256
        Rows a step, and rows a chunk at prediction, >= 1.
    optimizer : type, default=torch.optim.Adam
        Optimizer class. The factors r and s are a group of their own, without weight decay, where
        it has any; ``optimizer__param_groups=[("*.[rs]", {"lr": 1e-3})]`` takes its place.
    early_stopping : bool or "auto", default="auto"
        Hold out validation rows, stop after `n_iter_no_change` epochs without a gain in the loss of
        the mean of the members' probabilities, and keep the best weights. "auto" does so from 500
        rows on. Pre-training does not stop by it.
    validation_fraction : float, default=0.1
        Share of the rows held out, in (0, 1), stratified; a class with one row stays in training.
    n_iter_no_change : int, default=10
        Epochs without gain, >= 1, after which training stops.
    tol : float, default=1e-4
        Least gain in validation loss that counts, nats, >= 0.
    stop_accuracy : float, default=None
        Stop a phase after an epoch whose running training accuracy, in (0, 1], reaches it.
    class_weight : dict or "balanced", default=None
        Weight of each label; "balanced" is inverse to its frequency.
    dtype : {"float32", "float64"}, default="float32"
        Type of weights and probabilities. Uncertainties are float64.
    device : str or torch.device, default="auto"
        Where to train and predict. "auto" is CUDA where there is one.
    random_state : int, RandomState instance or None, default=None
        Fixes weights, factors, validation rows, batches and dropout. One seed is drawn from it in
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
    .. [1] Y. Wen, D. Tran, J. Ba. "BatchEnsemble: An Alternative Approach to Efficient Ensemble
       and Lifelong Learning". ICLR 2020, arXiv 2002.06715.
    .. [2] Y. Gorishniy, A. Kotelnikov, A. Babenko. "TabM: Advancing Tabular Deep Learning with
       Parameter-Efficient Ensembling". ICLR 2025, arXiv 2410.24210.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_probly import BatchEnsembleClassifier, predict_uncertainty
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BatchEnsembleClassifier(random_state=0))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    >>> predict_uncertainty(model, X).shape
    (150,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseTorchClassifier._parameter_constraints,
        "num_members": [Interval(Integral, 1, None, closed="left")],
        "scaling_init": [StrOptions({"normal", "random_sign", "tabm"})],
        "r_mean": [Interval(Real, None, None, closed="neither")],
        "r_std": [Interval(Real, 0, None, closed="left")],
        "s_mean": [Interval(Real, None, None, closed="neither")],
        "s_std": [Interval(Real, 0, None, closed="left")],
        "pretrain_epochs": [Interval(Integral, 0, None, closed="left")],
        "finetune_lr": [Interval(Real, 0, None, closed="neither")],
    }
    _structural_params: ClassVar[tuple[str, ...]] = (
        *BaseTorchClassifier._structural_params,
        "num_members",
    )

    def __init__(
        self,
        *,
        num_members: int = 8,
        scaling_init: str = "tabm",
        r_mean: float = 1.0,
        r_std: float = 0.5,
        s_mean: float = 1.0,
        s_std: float = 0.5,
        pretrain_epochs: int = 0,
        finetune_lr: float = 1e-4,
        **params: Any,
    ) -> None:
        super().__init__(**params)
        self.num_members = num_members
        self.scaling_init = scaling_init
        self.r_mean = r_mean
        self.r_std = r_std
        self.s_mean = s_mean
        self.s_std = s_std
        self.pretrain_epochs = pretrain_epochs
        self.finetune_lr = finetune_lr

    def _phase_epochs(self) -> int:
        return self.pretrain_epochs + self.max_epochs

    def _fit_phases(self, fit: FitContext) -> MemberNet:
        pretrained = self.pretrain_epochs > 0 and not fit.single_pass
        groups: dict[str, Any] = {}
        if "weight_decay" in inspect.signature(self.optimizer).parameters:
            groups["optimizer__param_groups"] = [("*.[rs]", {"weight_decay": 0.0})]
        return self._train(
            fit,
            "members",
            fit.former or self._members(fit, pretrained),
            MemberCrossEntropy,
            lr_name="finetune_lr" if pretrained else "lr",
            **groups,
        )

    def _members(self, fit: FitContext, pretrained: bool) -> BatchEnsemble:
        backbone = self._independent_members(fit, 1)
        scaling = Scaling(self.scaling_init, self.r_mean, self.r_std, self.s_mean, self.s_std)
        generator = fit.streams.torch("factors")
        if pretrained:
            self._pretrain(fit, backbone)
        network, rows = backbone.member(0), fit.train.X[:2]
        return BatchEnsemble(network, rows, self.num_members, scaling, generator).to(fit.device)

    def _pretrain(self, fit: FitContext, backbone: IndependentMembers) -> None:
        net = self._train(
            replace(fit, valid=None),
            "backbone",
            backbone,
            MemberCrossEntropy,
            max_epochs=self.pretrain_epochs,
            callbacks=None,
        )
        if net.interrupted_:
            raise KeyboardInterrupt
