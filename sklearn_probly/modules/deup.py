"""DEUP: a classifier and a small network that predicts its error."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .conversion import join_head, split_head
from .density import Encoded
from .error_features import ScaledFeatures, log10_error
from .members import MemberwiseModule

# What float64 can hold 10 to the power of; only rows far beyond all others come near.
MAX_LOG10_ERROR = 300.0
# Rows that are encoded at a time.
CHUNK = 4096


class FeaturisedNetwork(nn.Module):
    """A trained network and the features of its rows that its error is predicted from.

    Parameters
    ----------
    network : torch.nn.Module
        ``(n, *features) -> (n, n_classes)``; it is taken apart.
    rows : Tensor of shape (n, *features)
        A few rows.
    features : sequence
        As in `ScaledFeatures`.
    """

    def __init__(self, network: nn.Module, rows: Tensor, features: Sequence[Any]) -> None:
        super().__init__()
        self.backbone, self.head = split_head(network, rows)
        self.features = ScaledFeatures(features)

    def fit(self, X: Tensor, y: Tensor, generator: torch.Generator) -> FeaturisedNetwork:
        """Fit the features to training rows."""
        self.eval()
        with torch.no_grad():
            parts = [self.encode(chunk) for chunk in X.split(CHUNK)]
        hidden, logits = (torch.cat([part[i] for part in parts]) for i in (1, 2))
        self.features.fit(Encoded(X, hidden, logits), y, self.head, generator)
        return self

    def encode(self, X: Tensor) -> Encoded:
        """Return rows as the network sees them."""
        hidden = self.backbone(X)
        return Encoded(X, hidden, self.head(hidden))

    def examples(self, chunks: Iterator[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return features ``(n, n_features)`` and log10 errors ``(n,)`` of chunks of rows."""
        inputs, targets = [], []
        with torch.no_grad():
            for X, y in chunks:
                encoded = self.encode(X)
                inputs.append(self.features(encoded))
                targets.append(log10_error(encoded.logits, y).to(encoded.logits.dtype))
        return torch.cat(inputs), torch.cat(targets)

    def network(self) -> nn.Module:
        """Return a copy of the plain network."""
        backbone, head = copy.deepcopy((self.backbone, self.head))
        return join_head(backbone, head)


class ErrorPredictor(MemberwiseModule):
    """A classifier that knows its error.

    Parameters
    ----------
    classifier : FeaturisedNetwork
        The classifier and its features, fitted.
    error_head : torch.nn.Module
        ``(n, n_features) -> (1, n, 1)``: log10 of the error.
    """

    def __init__(self, classifier: FeaturisedNetwork, error_head: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier
        self.error_head = error_head

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, *features)`` to logits ``(1, n, n_classes)``."""
        return self.classifier.encode(x).logits[None]

    def logits_and_error(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits ``(n, n_classes)`` and predicted errors ``(n,)``, float64.

        Where logits are infinite, or not a number, the errors are 0.
        """
        encoded = self.classifier.encode(x)
        if not bool(encoded.logits.isfinite().all()):
            return encoded.logits, torch.zeros(len(x), dtype=torch.float64, device=x.device)
        log10 = self.error_head(self.classifier.features(encoded))[0, :, 0]
        return encoded.logits, 10 ** log10.double().clamp(-MAX_LOG10_ERROR, MAX_LOG10_ERROR)
