"""Deep anti-regularized ensembles."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from ..modules.losses import AntiRegularizedCrossEntropy
from ..modules.members import MemberList, StackedMembers
from ._base import BaseTorchClassifier, FitContext
from ._ensemble import BaseEnsembleClassifier
from ._net import MemberNet


class DAREEnsembleClassifier(BaseEnsembleClassifier):
    def __init__(
        self,
        *,
        num_members: int = 3,
        threshold: float = 0.3,
        reg_weight: float = 1.0,
        **params: Any,
    ) -> None:
        super().__init__(**params)
        self.num_members = num_members
        self.threshold = threshold
        self.reg_weight = reg_weight

    _parameter_constraints: dict[str, Any] = {
        **BaseTorchClassifier._parameter_constraints,
        "num_members": [Interval(Integral, 1, None, closed="left")],
        "threshold": [Interval(Real, -np.inf, np.inf, closed="both")],
        "reg_weight": [Interval(Real, 0, None, closed="left")],
    }

    def _fit_phases(self, fit: FitContext) -> MemberNet:
        networks = [self._network(fit, member) for member in range(self.num_members)]
        if self.module is None:
            members = StackedMembers(networks)
        else:
            members = MemberList(networks, input_dim=fit.train.X.dim())
        return self._train(
            fit,
            "members",
            members,
            AntiRegularizedCrossEntropy,
            threshold=self.threshold,
            reg_weight=self.reg_weight,
        )
