"""HetNet: a network whose logits are noisy, and the class distribution that averages the noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.quasirandom import SobolEngine

from .members import MemberwiseModule
from .mlp import Stochastic, linear

# Least standard deviation of the noise of a logit, as in the authors' layer.
MIN_SCALE = 1e-3
# Nodes of the trapezoid rule on the scale of the logistic law, which is nil beyond them.
_STEPS = [0.5 * i for i in range(-80, 81)]
# Most logits of a chunk of draws that are alive at a time.
CHUNK = 2**21


class HeteroscedasticNetwork(MemberwiseModule, Stochastic):
    r"""A network with logits :math:`u \sim N(\mu(x), V(x) V(x)^T + diag(d(x)^2))` [1]_.

    The output is the log of the class distribution :math:`E_u\, softmax(u / \tau)`, so that its
    cross-entropy is the loss of the method. The noise stands for label noise: one member.

    In training the mean is over a few antithetic draws, new at each step; at prediction over a
    fixed sequence of scrambled Sobol points. All rows share the draws, so that what becomes of a
    row does not depend on where it stands. For two classes both means are an integral in one
    dimension, which is computed instead.

    Parameters
    ----------
    backbone : torch.nn.Module
        ``(n, *features) -> (n, n_hidden)``.
    mean : torch.nn.Linear
        ``(n, n_hidden) -> (n, n_classes)``: mu.
    num_factors : int
        Number R >= 0 of columns of V; 0 is independent noise.
    temperature : float
        tau > 0.
    training_samples : int
        Draws at each step of training, >= 1.
    num_samples : int
        Draws at prediction, >= 1.
    generator : torch.Generator
        Where the initial weights of V and d and the scrambling are drawn from; on the CPU.

    References
    ----------
    .. [1] M. Collier, B. Mustafa, E. Kokiopoulou, R. Jenatton, J. Berent. "Correlated Input-
       Dependent Label Noise in Large-Scale Image Classification". CVPR 2021, arXiv 2105.10305.
    """

    draws: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        mean: nn.Linear,
        *,
        num_factors: int,
        temperature: float,
        training_samples: int,
        num_samples: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        n_hidden, n_classes = mean.in_features, mean.out_features
        dtype = mean.weight.dtype
        self.backbone = backbone
        self.mean = mean
        self.factors = (
            linear(n_hidden, n_classes * num_factors, generator, dtype) if num_factors else None
        )
        self.scale = linear(n_hidden, n_classes, generator, dtype)
        self.num_factors = num_factors
        self.temperature = temperature
        self.training_samples = training_samples
        n_draws = 0 if n_classes == 2 else num_samples
        draws = normal_sequence(n_draws, num_factors + n_classes, generator)
        self.register_buffer("draws", draws.to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, *features)`` to log-probabilities ``(1, n, n_classes)``."""
        mean, factors, scale = self.distribution(self.backbone(x))
        if mean.shape[1] == 2:
            return self._two_classes(mean, factors, scale)[None]
        if self.training:
            draws = self._training_draws(mean)
            shared, own = draws.split([self.num_factors, mean.shape[1]], 1)
            noise = torch.einsum("nkr,sr->snk", factors, shared) + scale * own[:, None]
            log_proba = ((mean + noise) / self.temperature).log_softmax(-1)
            return (log_proba.logsumexp(0) - math.log(self.training_samples))[None]
        return self._mean_over_shared_draws(mean, factors, scale)[None]

    def _training_draws(self, like: Tensor) -> Tensor:
        """Return antithetic draws, new at each step, that all rows share."""
        n_pairs = -(-self.training_samples // 2)
        draws = like.new_empty(n_pairs, self.num_factors + like.shape[1])
        draws.normal_(generator=self.generator)
        return torch.cat([draws, -draws])[: self.training_samples]

    def distribution(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the law of the logits, before the temperature, at the outputs of the backbone.

        Parameters
        ----------
        hidden : Tensor of shape (n, n_hidden)
            Outputs of the backbone.

        Returns
        -------
        mean : Tensor of shape (n, n_classes)
            Their mean.
        factors : Tensor of shape (n, n_classes, num_factors)
            V.
        scale : Tensor of shape (n, n_classes)
            d, >= 1e-3.
        """
        mean = self.mean(hidden)
        factors = mean.new_empty(*mean.shape, 0)
        if self.factors is not None:
            factors = self.factors(hidden).view(*mean.shape, self.num_factors)
        return mean, factors, functional.softplus(self.scale(hidden)) + MIN_SCALE

    def _two_classes(self, mean: Tensor, factors: Tensor, scale: Tensor) -> Tensor:
        first, second = log_expected_sigmoid(*self._gap(mean, factors, scale))
        return torch.stack([first, second], 1).to(mean.dtype)

    def _gap(self, mean: Tensor, factors: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of how far the first of two logits is ahead."""
        variance = (factors[:, 0] - factors[:, 1]).square().sum(1) + scale.square().sum(1)
        return (mean[:, 0] - mean[:, 1]) / self.temperature, variance / self.temperature**2

    def _mean_over_shared_draws(self, mean: Tensor, factors: Tensor, scale: Tensor) -> Tensor:
        total = torch.zeros(mean.shape, dtype=torch.float64, device=mean.device)
        for logits in self._drawn_logits(mean, factors, scale):
            total += logits.softmax(1).sum(-1)
        # As log-probabilities, with those that underflow at the least number there is.
        least = torch.finfo(torch.float64).tiny
        return (total / len(self.draws)).clamp_(min=least).log_().to(mean.dtype)

    def mean_entropy(self, x: Tensor) -> Tensor:
        r"""Return the mean entropy of the class distribution once the noise is known.

        :math:`E_u\, H(softmax(u / \tau))`, by the same draws or integral as the class distribution.

        Parameters
        ----------
        x : Tensor of shape (n, *features)
            Rows.

        Returns
        -------
        Tensor of shape (n,), float64
            Bits, between 0 and the entropy of the class distribution.
        """
        mean, factors, scale = self.distribution(self.backbone(x))
        if mean.shape[1] == 2:
            return expected_binary_entropy(*self._gap(mean, factors, scale))
        total = torch.zeros(len(mean), dtype=torch.float64, device=mean.device)
        for logits in self._drawn_logits(mean, factors, scale):
            total += torch.special.entr(logits.softmax(1)).sum((1, 2))
        return total / (len(self.draws) * math.log(2))

    def _drawn_logits(self, mean: Tensor, factors: Tensor, scale: Tensor) -> Iterator[Tensor]:
        """Yield ``u / tau`` at all draws, in pieces of shape (n, n_classes, n_draws)."""
        n_rows, n_classes = mean.shape
        loading = factors.reshape(n_rows * n_classes, self.num_factors) / self.temperature
        scale, mean = scale / self.temperature, mean / self.temperature
        for draws in self.draws.split(max(1, CHUNK // (n_rows * n_classes))):
            shared, own = draws[:, : self.num_factors], draws[:, self.num_factors :]
            logits = (loading @ shared.T).view(n_rows, n_classes, -1)
            logits += scale[..., None] * own.T
            logits += mean[..., None]
            yield logits

    def extra_repr(self) -> str:
        """Return what `repr` shows between the brackets."""
        return (
            f"num_factors={self.num_factors}, temperature={self.temperature}, "
            f"training_samples={self.training_samples}, num_samples={len(self.draws)}"
        )


def normal_sequence(n_draws: int, dimension: int, generator: torch.Generator) -> Tensor:
    """Return scrambled Sobol points as normal numbers.

    Parameters
    ----------
    n_draws, dimension : int
        Size; beyond the 21,201 dimensions of the sequence, plain antithetic draws are returned.
    generator : torch.Generator
        Where the scrambling is drawn from; on the CPU.

    Returns
    -------
    Tensor of shape (n_draws, dimension), float64
        Points whose averages converge faster than those of independent normal draws.
    """
    if n_draws == 0:
        return torch.empty(0, dimension, dtype=torch.float64)
    if dimension > SobolEngine.MAXDIM:
        half = torch.randn(-(-n_draws // 2), dimension, generator=generator, dtype=torch.float64)
        return torch.cat([half, -half])[:n_draws]
    seed = int(torch.randint(2**31, (1,), generator=generator))
    # The engine draws from a generator of its own when it has a seed.
    engine = SobolEngine(dimension, scramble=True, seed=seed)
    # Its own first point is of torch's default dtype.
    first = engine.quasi.double()[None] / 2**engine.MAXBIT
    rest = engine.fast_forward(1).draw(n_draws - 1, dtype=torch.float64)
    uniform = torch.cat([first, rest])
    return torch.special.ndtri(uniform.clamp(2.0**-32, 1 - 2.0**-32))


def log_expected_sigmoid(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the logs of :math:`E\,\sigma(g)` and :math:`E\,\sigma(-g)` for normal g.

    Computed in float64 to about 1e-9 of the probabilities, at any mean and variance: where the
    standard deviation is at most 1, by Gauss-Hermite quadrature; else as the mean over the logistic
    law of u of :math:`\Phi((m - u) / s)`, by the trapezoid rule, which converges geometrically. In
    the far tail :math:`E\,\sigma(g) = e^{m + v/2} E\,\sigma(-h)` for h normal with mean m + v
    keeps the logs right, too.

    Parameters
    ----------
    mean, variance : Tensor of shape (n,)
        Of g; variance >= 0.

    Returns
    -------
    log_positive, log_negative : Tensor of shape (n,), float64
        Both logs, at most 0.
    """
    mean, variance = mean.double(), variance.double()
    narrow = variance <= 1
    # Each branch gets harmless numbers where it is not used, so that its gradients stay finite.
    small = torch.where(narrow, variance, 1.0).clamp(min=1e-30).sqrt()
    large = torch.where(narrow, 1.0, variance).sqrt()
    nodes, log_weights = mean.new_tensor(_gauss_hermite(32))
    gap = mean[:, None] + small[:, None] * nodes
    steps = mean.new_tensor(_STEPS)
    log_density = math.log(0.5) + functional.logsigmoid(steps) + functional.logsigmoid(-steps)

    def log_mean(sign: int) -> Tensor:
        by_hermite = (log_weights + functional.logsigmoid(sign * gap)).logsumexp(1)
        m, v = sign * mean, large.square()
        far = m < -v / 2
        z = (torch.where(far, -(m + v), m)[:, None] - steps) / large[:, None]
        by_trapezoid = (log_density + torch.special.log_ndtr(z)).logsumexp(1)
        by_trapezoid = by_trapezoid + torch.where(far, m + v / 2, 0.0)
        return torch.where(narrow, by_hermite, by_trapezoid).clamp(max=0.0)

    return log_mean(1), log_mean(-1)


def expected_binary_entropy(mean: Tensor, variance: Tensor) -> Tensor:
    r"""Return the expected entropy of :math:`(\sigma(g), \sigma(-g))` for normal g.

    Computed in float64 to about 1e-9, in the two ways of :func:`log_expected_sigmoid`.

    Parameters
    ----------
    mean, variance : Tensor of shape (n,)
        Of g; variance >= 0.

    Returns
    -------
    Tensor of shape (n,), float64
        Bits, between 0 and 1.
    """
    mean, variance = mean.double()[:, None], variance.double()[:, None]

    def binary_entropy(gap: Tensor) -> Tensor:
        return torch.special.entr(torch.stack([gap, -gap]).sigmoid()).sum(0) / math.log(2)

    nodes, log_weights = mean.new_tensor(_gauss_hermite(32))
    by_hermite = binary_entropy(mean + variance.sqrt() * nodes) @ log_weights.exp()
    steps = mean.new_tensor(_STEPS)
    density = torch.exp(-0.5 * (steps - mean).square() / variance) / variance.sqrt()
    by_trapezoid = density @ binary_entropy(steps) * (0.5 / math.sqrt(2 * math.pi))
    return torch.where(variance[:, 0] <= 1, by_hermite, by_trapezoid)


@cache
def _gauss_hermite(n: int) -> tuple[list[float], list[float]]:
    """Return nodes and log weights for the standard normal law, from the Jacobi matrix.

    Plain numbers, as tensors would keep the gradient mode of the first call.
    """
    beside = torch.arange(1, n, dtype=torch.float64).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(beside, 1) + torch.diag(beside, -1))
    return nodes.tolist(), vectors[0].square().log().tolist()
