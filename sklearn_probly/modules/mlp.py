"""The default network: a plain multi-layer perceptron, built without torch's global generator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .embeddings import FeatureEmbedding

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


class Stochastic(nn.Module):
    """A module that draws random numbers in training.

    torch's own, such as `torch.nn.Dropout`, draw from the global generator, which an estimator must
    not touch.

    Attributes
    ----------
    generator : torch.Generator or None
        Where training draws from; None is torch's global generator. It belongs to a running `fit`
        and is not part of the module's state.
    """

    generator: torch.Generator | None = None


class Dropout(Stochastic):
    """Inverted dropout.

    Parameters
    ----------
    p : float
        Probability in [0, 1) of setting an element to zero.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` of any shape, in training with a share `p` of its elements zeroed."""
        if not self.training or self.p == 0:
            return x
        mask = torch.empty_like(x).bernoulli_(1 - self.p, generator=self.generator)
        return x * mask.div_(1 - self.p)

    def extra_repr(self) -> str:
        """Return what `repr` shows between the brackets."""
        return f"p={self.p}"


def linear(
    in_features: int, out_features: int, generator: torch.Generator, dtype: torch.dtype
) -> nn.Linear:
    """Return a linear layer with the initial law of `torch.nn.Linear`, drawn from `generator`.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the layer.
    generator : torch.Generator
        A generator on the CPU, so that every device starts from the same weights.
    dtype : torch.dtype
        Type of weight and bias.

    Returns
    -------
    torch.nn.Linear
        Weight and bias uniform on +- 1 / sqrt(in_features).
    """
    # skip_init leaves out the constructor's own draw, which is from the global generator.
    layer = nn.utils.skip_init(nn.Linear, in_features, out_features, device="cpu", dtype=dtype)
    bound = 1 / math.sqrt(in_features)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


def mlp(
    n_features: int,
    n_classes: int,
    hidden_layer_sizes: Sequence[int] = (256, 256),
    *,
    activation: str = "relu",
    dropout: float = 0.0,
    embedding: FeatureEmbedding | None = None,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """Return a multi-layer perceptron that maps ``(n, n_features)`` to logits ``(n, n_classes)``.

    Parameters
    ----------
    n_features, n_classes : int
        Width of the input and of the output.
    hidden_layer_sizes : sequence of int, default=(256, 256)
        Widths of the hidden layers; empty is a linear model.
    activation : {"relu", "gelu", "silu", "tanh"}, default="relu"
        Activation after each hidden layer.
    dropout : float, default=0.0
        Dropout probability in [0, 1) after each activation; 0 adds no dropout layer.
    embedding : FeatureEmbedding, default=None
        What comes first; it is not copied.
    generator : torch.Generator
        Where the initial weights are drawn from.
    dtype : torch.dtype, default=torch.float32
        Type of the weights.

    Returns
    -------
    torch.nn.Sequential
        The embedding, linear layers, activations and `Dropout`, and nothing else.
    """
    layers: list[nn.Module] = [] if embedding is None else [embedding]
    width = n_features if embedding is None else embedding.width
    for hidden in hidden_layer_sizes:
        layers += [linear(width, hidden, generator, dtype), ACTIVATIONS[activation]()]
        if dropout > 0:
            layers.append(Dropout(dropout))
        width = hidden
    layers.append(linear(width, n_classes, generator, dtype))
    return nn.Sequential(*layers)
