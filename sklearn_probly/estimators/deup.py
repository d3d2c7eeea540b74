"""DEUP: direct epistemic uncertainty prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from ..modules.deup import CHUNK, ErrorPredictor, FeaturisedNetwork
from ..modules.error_features import ScaledFeatures
from ..modules.losses import MemberCrossEntropy, MemberSquaredError
from ..modules.members import StackedMembers
from ..modules.mlp import mlp
from ._base import BaseTorchClassifier
from ._context import FitContext
from ._data import Rows, stratified_folds
from ._net import MemberNet
from ._validation import FLOATS


class DEUPClassifier(BaseTorchClassifier):
    r"""DEUP: a classifier, and a second network that predicts its error.

    First the classifier is trained, and with it one network for each fold, on all other folds. Then
    features that say how usual a row is are computed, and a small network learns from them log10 of
    the error on rows that were not trained on: the binary cross-entropy between class probabilities
    and one-hot label, summed over classes [1]_.

    The uncertainty is the predicted error, in nats, ``10 ** output``. It is called
    ``"epistemic"``, as in the paper, although the error holds label noise as well, which nothing
    here takes off. It is a geometric rather than an arithmetic mean, which is lower: take it as a
    ranking. The entropy of the class probabilities is
    ``measures.entropy(est.predict_proba(X))``.

    Parameters
    ----------
    features : sequence of str or object, default=("log_gmm_density", "log_mc_dropout_variance")
        What the error is predicted from: "log_gmm_density", the log density of the last hidden
        layer under one Gaussian for each class; "log_mc_dropout_variance", the log variance of the
        class probabilities under dropout of that layer; "log_flow_density", the log density under a
        normalizing flow (needs zuko); or an object with ``fit(rows, y, head, generator)`` and
        ``transform(rows) -> (n,)``, where ``rows`` has ``X``, ``hidden`` and ``logits`` and
        ``head`` is the last layer. Each is scaled to [0, 1] on training rows and clamped to +-10.
    error_hidden_size : int, default=512
        Width, >= 1, of the hidden layers of the network that predicts the error.
    error_hidden_layers : int, default=2
        Their number, >= 0.
    error_max_epochs : int, default=20
        Passes, >= 1, in which it is trained.
    error_lr : float, default=0.005
        Its learning rate, > 0, of SGD with momentum 0.9.
    error_batch_size : int, default=64
        Its rows a step, >= 1.
    error_cv : int, default=5
        Folds, >= 2, for errors on rows that were not trained on; their networks are trained side by
        side with the classifier. None takes the classifier's errors on its own training rows, as
        the published experiment does. In a `module` with batch normalisation, rows of weight 0
        still count in the statistics of their batch.
    ood_augmentation : {"uniform"}, default="uniform"
        Rows out of distribution: as many as there are training rows, uniform within the
        range of each feature, with random labels. None adds none.
    hidden_layer_sizes : sequence of int, default=(256, 256)
        Widths, >= 1, of the hidden layers of the default network; empty is a linear model.
    activation : {"relu", "gelu", "silu", "tanh"}, default="relu"
        Activation after each hidden layer of the default network.
    dropout : float, default=0.1
        Dropout probability in [0, 1) after each hidden layer of the default network.
    num_embedding : {"auto", "piecewise_linear", "periodic"} or None, default="auto"
        What stands in for each feature in the default network: how far it is through each of up to
        24 bins, sines and cosines of it, or, None, the feature itself. The bins are those of the
        training rows. "auto" is "piecewise_linear" up to 128
        features, and None from there on.
    module : type, torch.nn.Module or callable, default=None
        A network of your own that maps rows to logits ``(n, n_classes)``: a class, called with the
        ``module__...`` parameters; an instance, copied and re-initialised for each fold; or a
        callable ``(n_features, n_classes, **module_params) -> torch.nn.Module``. Its output must be
        that of a `torch.nn.Linear`, whose input is the last hidden layer. None is the default
        network.
    max_epochs : int, default=200
        Most passes over the training rows, >= 1, of the classifier.
    lr : float, default=2e-3
        Learning rate, > 0, of the classifier.
    batch_size : int, default=256
        Rows a step, and rows a chunk at prediction, >= 1.
    optimizer : type, default=torch.optim.Adam
        Optimizer class of the classifier. It should treat each weight by itself, as Adam and SGD
        do; LBFGS searches along one line for the networks of all folds together.
    early_stopping : bool or "auto", default="auto"
        Hold out validation rows, stop the classifier (and the network of each fold) after
        `n_iter_no_change` epochs without a gain in validation loss, and keep the best weights.
        "auto" does so from 500 rows on.
    validation_fraction : float, default=0.1
        Share of the rows held out, in (0, 1), stratified; a class with one row stays in training.
    n_iter_no_change : int, default=10
        Epochs without gain, >= 1, after which a network stops.
    tol : float, default=1e-4
        Least gain in validation loss that counts, nats, >= 0.
    stop_accuracy : float, default=None
        Stop a network after an epoch whose running training accuracy, in (0, 1], reaches it.
    class_weight : dict or "balanced", default=None
        Weight of each label; "balanced" is inverse to its frequency.
    dtype : {"float32", "float64"}, default="float32"
        Type of weights and probabilities. Uncertainties are float64.
    device : str or torch.device, default="auto"
        Where to train and predict. "auto" is CUDA where there is one.
    random_state : int, RandomState instance or None, default=None
        Fixes weights, folds, validation rows, batches, dropout and uniform rows. One seed is drawn
        from it in `fit`.
    warm_start : bool, default=False
        Whether a second `fit` goes on from the classifier's fitted weights; the networks of the
        folds and the error's start anew.
    verbose : int, default=0
        1 draws a progress bar, 2 also prints skorch's table.
    callbacks : list, default=None
        skorch callbacks of the classifier. They are copied in `fit`; the ones used are in
        ``net_.callbacks_``.
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
        The trained classifier, its features and the network that predicts its error.
    history_ : skorch.history.History
        For each epoch ``train_loss`` and ``valid_loss`` (nats) and ``train_accuracy``, means over
        the classifier and the network of each fold, and their own, in that order, as
        ``member_train_loss`` and so on.
    uncertainty_kinds_ : tuple of str
        ``("epistemic",)``.
    uncertainty_units_ : dict
        The unit, ``"nats"``.

    References
    ----------
    .. [1] S. Lahlou, M. Jain, H. Nekoei, V. I. Butoi, P. Bertin, J. Rector-Brooks, M. Korablyov,
       Y. Bengio. "DEUP: Direct Epistemic Uncertainty Prediction". TMLR 2023, arXiv 2102.08501.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_probly import DEUPClassifier, predict_uncertainty
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), DEUPClassifier(random_state=0))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    >>> predict_uncertainty(model, X).shape
    (150,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseTorchClassifier._parameter_constraints,
        "features": ["array-like"],
        "error_hidden_size": [Interval(Integral, 1, None, closed="left")],
        "error_hidden_layers": [Interval(Integral, 0, None, closed="left")],
        "error_max_epochs": [Interval(Integral, 1, None, closed="left")],
        "error_lr": [Interval(Real, 0, None, closed="neither")],
        "error_batch_size": [Interval(Integral, 1, None, closed="left")],
        "error_cv": [None, Interval(Integral, 2, None, closed="left")],
        "ood_augmentation": [None, StrOptions({"uniform"})],
    }
    _uncertainty_units: ClassVar[dict[str, str]] = {"epistemic": "nats"}
    _undefined_kinds: ClassVar[dict[str, str]] = dict.fromkeys(
        ("total", "aleatoric"),
        "it predicts the error of its classifier as one number; the entropy of the class "
        "probabilities is measures.entropy(est.predict_proba(X))",
    )

    def __init__(
        self,
        *,
        features: Any = ("log_gmm_density", "log_mc_dropout_variance"),
        error_hidden_size: int = 512,
        error_hidden_layers: int = 2,
        error_max_epochs: int = 20,
        error_lr: float = 0.005,
        error_batch_size: int = 64,
        error_cv: int | None = 5,
        ood_augmentation: str | None = "uniform",
        **params: Any,
    ) -> None:
        super().__init__(**params)
        self.features = features
        self.error_hidden_size = error_hidden_size
        self.error_hidden_layers = error_hidden_layers
        self.error_max_epochs = error_max_epochs
        self.error_lr = error_lr
        self.error_batch_size = error_batch_size
        self.error_cv = error_cv
        self.ood_augmentation = ood_augmentation

    def _phase_epochs(self) -> int:
        return self.max_epochs + self.error_max_epochs

    def _check_params(self, former: MemberNet | None) -> None:
        super()._check_params(former)
        if isinstance(self.features, str) or not len(self.features):
            raise ValueError(
                f"features must be a sequence of at least one feature; got {self.features!r}."
            )
        ScaledFeatures(self.features)  # says which are known

    def _has_own_code(self) -> bool:
        return super()._has_own_code() or any(not isinstance(f, str) for f in self.features)

    def _fit_phases(self, fit: FitContext) -> MemberNet:
        train = fit.train.all()
        folds = self._folds(fit, train)
        net, networks = self._train_classifiers(fit, train, folds)
        generator = fit.streams.torch("features")
        classifiers = [
            FeaturisedNetwork(network, train.X[:2], self.features).fit(
                train.X[kept], train.y[kept], generator
            )
            for network, (kept, _) in zip(networks, folds, strict=True)
        ]
        error_rows = self._error_rows(fit, train, classifiers, folds)
        error_net = self._train_error_head(fit, error_rows)
        predictor = ErrorPredictor(classifiers[0], error_net.module_)
        net.replace_module(predictor.eval())
        net.interrupted_ |= error_net.interrupted_
        return net

    def _folds(self, fit: FitContext, train: Rows) -> list[tuple[Tensor, Tensor]]:
        """Return the rows that each network is trained on, and those whose errors it gives.

        The first network is the classifier.
        """
        everything = torch.arange(len(train), device=fit.device)
        if self.error_cv is None or len(train) < 2:
            return [(everything, everything)]
        n_folds = min(self.error_cv, len(train))
        fold = torch.from_numpy(
            stratified_folds(train.y.cpu().numpy(), n_folds, fit.streams.numpy("folds"))
        ).to(fit.device)
        folds = [((fold != k).nonzero()[:, 0], (fold == k).nonzero()[:, 0]) for k in range(n_folds)]
        return [(everything, everything[:0]), *folds]

    def _train_classifiers(
        self, fit: FitContext, train: Rows, folds: list[tuple[Tensor, Tensor]]
    ) -> tuple[MemberNet, list[nn.Module]]:
        networks = [self._network(fit, member) for member in range(len(folds))]
        if isinstance(fit.former, ErrorPredictor):
            networks[0] = fit.former.classifier.network()
        members = self._side_by_side(fit, networks)
        rows = train
        if len(folds) > 1:
            weight = train.X.new_zeros(len(folds), len(train))
            for of_network, (kept, _) in zip(weight, folds, strict=True):
                of_network[kept] = 1.0 if train.weight is None else train.weight[kept]
            rows = replace(train, weight=weight / weight.mean(1, keepdim=True))
        net = self._train(
            replace(fit, train=rows),
            "classifier",
            members,
            MemberCrossEntropy,
            criterion__reduction="sum",
            stop_together=False,
        )
        return net, [members.member(m) for m in range(len(folds))]

    def _error_rows(
        self,
        fit: FitContext,
        train: Rows,
        classifiers: list[FeaturisedNetwork],
        folds: list[tuple[Tensor, Tensor]],
    ) -> Rows:
        """Return features and log10 errors of rows not trained on, and of uniform rows."""
        least, most = train.X.amin(0), train.X.amax(0)

        def chunks(held_out: Tensor, fold: int) -> Iterator[tuple[Tensor, Tensor]]:
            for index in held_out.split(CHUNK):
                yield train.X[index], train.y[index]
            if self.ood_augmentation is None:
                return
            generator = fit.streams.torch("foreign rows", fold, device=fit.device)
            for index in held_out.split(CHUNK):
                share = torch.empty_like(train.X[index]).uniform_(generator=generator)
                y = torch.empty_like(index).random_(fit.n_classes, generator=generator)
                yield torch.lerp(least, most, share), y

        parts = []
        for fold, (classifier, (_, held_out)) in enumerate(zip(classifiers, folds, strict=True)):
            if not len(held_out):
                continue  # the classifier, where the networks of folds give the errors
            inputs, targets = classifier.examples(chunks(held_out, fold))
            weight = torch.ones_like(targets)
            if train.weight is not None:
                weight[: len(held_out)] = train.weight[held_out]
            parts.append((inputs, targets, weight))
        return Rows(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _train_error_head(self, fit: FitContext, rows: Rows) -> MemberNet:
        head = mlp(
            rows.X.shape[1],
            1,
            (self.error_hidden_size,) * self.error_hidden_layers,
            generator=fit.streams.torch("error head"),
            dtype=FLOATS[self.dtype][1],
        )
        return self._train(
            replace(fit, train=rows, valid=None),
            "error head",
            StackedMembers.from_members([head]),
            MemberSquaredError,
            optimizer=torch.optim.SGD,
            optimizer__momentum=0.9,
            lr_name="error_lr",
            max_epochs=self.error_max_epochs,
            batch_size=self.error_batch_size,
            callbacks=None,
        )

    def _predict_chunk(
        self, module: nn.Module, rows: Tensor, kind: str | None
    ) -> tuple[Tensor, Tensor]:
        if kind is None:
            proba = module(rows)[0].double().softmax(-1)
            return proba, proba
        assert isinstance(module, ErrorPredictor)
        logits, error = module.logits_and_error(rows)
        return logits.double().softmax(-1), error
