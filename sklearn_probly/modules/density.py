"""How usual a row is: log densities of the hidden features of a network."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .generators import borrowed_global_generators

# Of rows so far away that it cannot be computed.
MIN_LOG_DENSITY = -1e300
# A class of fewer rows has the covariance pooled over classes: Ledoit and Wolf's shrinkage is
# estimated from the rows too, and two of them seem to need none at all.
LEAST_ROWS = 10


class Encoded(NamedTuple):
    """Rows as a network sees them.

    Attributes
    ----------
    X : Tensor of shape (n, *features)
        The rows.
    hidden : Tensor of shape (n, n_hidden)
        Inputs of the last linear layer.
    logits : Tensor of shape (n, n_classes)
        Outputs.
    """

    X: Tensor
    hidden: Tensor
    logits: Tensor


class LogGMMDensity(nn.Module):
    """Log density under a mixture of one Gaussian for each class, of full covariance.

    Fitted to the inputs of the network's last layer. Weights are the class frequencies. Covariances
    are shrunk towards a multiple of the identity, so that units that are always 0 do no harm; a
    class of fewer than 10 rows has the covariance that is pooled over classes.

    Parameters
    ----------
    shrinkage : float, default=None
        In [0, 1]; None is that of Ledoit and Wolf [1]_, for each class.

    References
    ----------
    .. [1] O. Ledoit, M. Wolf. "A well-conditioned estimator for large-dimensional covariance
       matrices". Journal of Multivariate Analysis 88, 2004.
    """

    center: Tensor
    whitening: Tensor
    whitened_means: Tensor
    constant: Tensor

    def __init__(self, shrinkage: float | None = None) -> None:
        super().__init__()
        self.shrinkage = shrinkage

    def fit(
        self, rows: Encoded, y: Tensor, head: nn.Linear, generator: torch.Generator
    ) -> LogGMMDensity:
        """Fit the mixture to the hidden features of training rows."""
        hidden = rows.hidden.double()
        center = hidden.mean(0)
        counts = torch.bincount(y, minlength=head.out_features)
        present = counts.nonzero()[:, 0]
        means = torch.stack([hidden[y == k].mean(0) for k in present])
        residuals = hidden - means[torch.searchsorted(present, y)]
        pooled, _ = shrunk_covariance(residuals, self.shrinkage)
        covariances = [
            shrunk_covariance(residuals[y == k], self.shrinkage)[0]
            if counts[k] >= LEAST_ROWS
            else pooled
            for k in present
        ]
        factors = torch.linalg.cholesky(torch.stack(covariances))
        identity = torch.eye(factors.shape[-1], dtype=factors.dtype, device=factors.device)
        whitening = torch.linalg.solve_triangular(factors, identity, upper=False)
        log_det = factors.diagonal(dim1=1, dim2=2).log().sum(1)
        constant = (counts[present].double() / len(y)).log() - log_det
        constant -= 0.5 * factors.shape[-1] * math.log(2 * math.pi)
        dtype = rows.hidden.dtype
        self.register_buffer("center", center.to(dtype))
        self.register_buffer("whitening", whitening.to(dtype))
        self.register_buffer(
            "whitened_means", (whitening @ (means - center)[..., None])[..., 0].to(dtype)
        )
        self.register_buffer("constant", constant)
        return self

    def transform(self, rows: Encoded) -> Tensor:
        """Return the log density of each row, nats, float64."""
        # One product for all classes; squares in float64, as far rows would overflow.
        whitened = (rows.hidden - self.center) @ self.whitening.flatten(0, 1).T
        distance = whitened.view(len(whitened), *self.whitened_means.shape) - self.whitened_means
        log_density = (self.constant - 0.5 * distance.double().square().sum(-1)).logsumexp(1)
        return log_density.nan_to_num(MIN_LOG_DENSITY, neginf=MIN_LOG_DENSITY)


def shrunk_covariance(residuals: Tensor, shrinkage: float | None = None) -> tuple[Tensor, float]:
    """Return a covariance shrunk towards the mean variance times the identity, and how much.

    Parameters
    ----------
    residuals : Tensor of shape (n, n_features), float64
        Rows less their mean.
    shrinkage : float, default=None
        In [0, 1]; None is that of Ledoit and Wolf.

    Returns
    -------
    covariance : Tensor of shape (n_features, n_features)
        Positive definite.
    shrinkage : float
        What was used, at least 1e-6.
    """
    n, width = residuals.shape
    covariance = residuals.T @ residuals / n
    variance = covariance.diagonal().mean()
    if shrinkage is None:
        squared = covariance.square().sum()
        spread = squared / width - variance**2
        noise = (residuals.square().sum(1).square().sum() / n - squared) / (n * width)
        shrinkage = float((noise.clamp(min=0) / spread.clamp(min=1e-300)).clamp(max=1.0))
    # Never none at all: units that are always 0 would make the covariance singular.
    shrinkage = max(shrinkage, 1e-6)
    covariance = covariance * (1 - shrinkage)
    covariance.diagonal().add_(shrinkage * variance.clamp(min=1e-12))
    return covariance, shrinkage


class LogFlowDensity(nn.Module):
    """Log density under a normalizing flow, a neural spline flow of the library zuko.

    Fitted by maximum likelihood to the standardised inputs of the network's last layer, of which
    those without variance are left out. Needs ``pip install 'sklearn-probly[flow]'``.

    Parameters
    ----------
    n_transforms : int, default=2
        Number of transforms, >= 1.
    hidden_features : tuple of int, default=(64, 64)
        Widths of the networks that give their parameters.
    max_epochs : int, default=10
        Passes over the training rows, >= 1.
    lr : float, default=1e-3
        Learning rate of Adam, > 0.
    batch_size : int, default=256
        Rows a step, >= 1.
    """

    used: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        n_transforms: int = 2,
        hidden_features: tuple[int, ...] = (64, 64),
        max_epochs: int = 10,
        lr: float = 1e-3,
        batch_size: int = 256,
    ) -> None:
        super().__init__()
        self.n_transforms = n_transforms
        self.hidden_features = hidden_features
        self.max_epochs = max_epochs
        self.lr = lr
        self.batch_size = batch_size

    def fit(
        self, rows: Encoded, y: Tensor, head: nn.Linear, generator: torch.Generator
    ) -> LogFlowDensity:
        """Fit the flow to the hidden features of training rows.

        Raises
        ------
        ImportError
            If zuko is not installed.
        ValueError
            If a weight stops being finite.
        """
        try:
            from zuko.flows import NSF
        except ImportError as error:
            raise ImportError(
                "'log_flow_density' needs zuko: pip install 'sklearn-probly[flow]'."
            ) from error
        deviation, mean = torch.std_mean(rows.hidden, 0)
        used = (deviation > 1e-6 * deviation.max()).nonzero()[:, 0]
        for name, value in (("mean", mean[used]), ("deviation", deviation[used]), ("used", used)):
            self.register_buffer(name, value)
        hidden = self._standardised(rows)
        # zuko draws its first weights from the global generator.
        with borrowed_global_generators(int(torch.randint(2**31, (1,), generator=generator))):
            self.flow = NSF(
                len(used), transforms=self.n_transforms, hidden_features=self.hidden_features
            ).to(hidden)
        optimizer = torch.optim.Adam(self.flow.parameters(), lr=self.lr)
        for _ in range(self.max_epochs):
            order = torch.randperm(len(hidden), generator=generator).to(hidden.device)
            for batch in order.split(self.batch_size):
                optimizer.zero_grad()
                (-self.flow().log_prob(hidden[batch]).mean()).backward()
                optimizer.step()
        if not all(bool(p.isfinite().all()) for p in self.flow.parameters()):
            raise ValueError(f"A weight of the flow is not finite; lower lr={self.lr}.")
        self.requires_grad_(False)
        return self

    def transform(self, rows: Encoded) -> Tensor:
        """Return the log density of each row, nats."""
        log_density = self.flow().log_prob(self._standardised(rows)).double()
        log_density -= self.deviation.double().log().sum()
        return log_density.nan_to_num(MIN_LOG_DENSITY, neginf=MIN_LOG_DENSITY)

    def _standardised(self, rows: Encoded) -> Tensor:
        return (rows.hidden[:, self.used] - self.mean) / self.deviation
