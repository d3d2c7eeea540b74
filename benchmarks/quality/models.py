"""The five at their defaults, and what a user would have taken instead."""

from functools import partial

from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.neural_network import MLPClassifier

from sklearn_probly import (
    BatchEnsembleClassifier,
    DAREEnsembleClassifier,
    DEUPClassifier,
    HetNetClassifier,
    MasksemblesClassifier,
)


def bagged(random_state):
    net = MLPClassifier((256, 256), early_stopping=True, max_iter=100)
    return BaggingClassifier(net, 5, random_state=random_state)


def tabm(random_state):
    from pytabkit import TabM_D_Classifier  # not installed with the benchmarks: see the docs

    return TabM_D_Classifier(random_state=random_state, n_threads=1, device="cpu", verbosity=0)


OURS = {
    "BatchEnsemble": BatchEnsembleClassifier,
    "DARE": DAREEnsembleClassifier,
    "Masksembles": MasksemblesClassifier,
    "HetNet": HetNetClassifier,
    "DEUP": DEUPClassifier,
}
PEERS = {
    "MLPClassifier": partial(MLPClassifier, (256, 256), early_stopping=True, max_iter=100),
    "bagged MLPs": bagged,
    "random forest": partial(RandomForestClassifier, 300),
    "HistGradientBoosting": HistGradientBoostingClassifier,
}
MODELS = {
    **PEERS,
    "plain ensemble": partial(DAREEnsembleClassifier, reg_weight=0.0),
    **OURS,
    "TabM": tabm,
}
