"""Training rows as tensors on the device, and the batches drawn from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

Batch = tuple[Tensor, tuple[Tensor, Tensor | None]]


@dataclass
class Rows(Dataset):
    """Rows of a table of tensors, chosen by an index so that a split copies nothing.

    Attributes
    ----------
    X : Tensor of shape (n_total, *features)
        The whole table.
    y : Tensor of shape (n_total,)
        Class indices, int64; in a phase of regression, numbers.
    weight : Tensor of shape (n_total,) or (n_members, n_total), or None
        Row weights, each member's own if there are two axes; None is 1 for every row.
    index : Tensor of shape (n,), int64, or None
        The rows meant; None is all of them.
    """

    X: Tensor
    y: Tensor
    weight: Tensor | None = None
    index: Tensor | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X if self.index is None else self.index)

    def __getitem__(self, position: Tensor) -> Batch:
        """Return the rows at `position`, of shape ``(n,)`` or ``(n_members, n)``."""
        index = position if self.index is None else self.index[position]
        flat = index.reshape(-1)
        # index_select of whole rows is several times faster than indexing with a matrix.
        X = self.X.index_select(0, flat).view(*index.shape, *self.X.shape[1:])
        return X, (self.y[index], None if self.weight is None else self._weight(index))

    def _weight(self, index: Tensor) -> Tensor:
        assert self.weight is not None
        if index.dim() == 2 and self.weight.dim() == 2:
            return self.weight.gather(1, index)
        return self.weight[..., index]

    def subset(self, position: Tensor) -> Rows:
        """Return the rows at `position`, without a copy of the table."""
        index = position if self.index is None else self.index[position]
        return Rows(self.X, self.y, self.weight, index)

    def all(self) -> Rows:
        """Return the same rows without an index."""
        if self.index is None:
            return self
        X, (y, weight) = self[torch.arange(len(self), device=self.X.device)]
        return Rows(X, y, weight)


class BatchSampler:
    """Positions of the batches of one epoch: the same for all members, or an order for each.

    Parameters
    ----------
    n_rows : int
        Number of rows to draw from.
    batch_size : int
        Rows a batch; the last one of an epoch may be smaller.
    generators : sequence of torch.Generator
        One for each order: with one, members share their batches (positions of shape ``(n,)``);
        with several, each member has its own (``(n_members, n)``).
    device : torch.device
        Where the positions are used.
    shuffle, drop_last : bool
        As in `torch.utils.data.DataLoader`.
    least : int, default=1
        Fewest rows of a batch: a smaller last batch is left out, as batch normalisation cannot
        take one row.

    Raises
    ------
    ValueError
        If a whole batch has fewer than `least` rows.
    """

    def __init__(
        self,
        n_rows: int,
        batch_size: int,
        generators: Sequence[torch.Generator],
        device: torch.device,
        shuffle: bool = True,
        drop_last: bool = False,
        least: int = 1,
    ) -> None:
        if min(batch_size, n_rows) < least:
            raise ValueError(
                f"Batch normalisation needs {least} rows a batch; got batch_size={batch_size} and "
                f"{n_rows} training rows."
            )
        self.n_rows, self.batch_size, self.device = n_rows, batch_size, device
        self.generators, self.shuffle = generators, shuffle
        self.stop = n_rows - n_rows % batch_size if drop_last and n_rows >= batch_size else n_rows
        if 0 < self.stop % batch_size < least and self.stop > batch_size:
            self.stop -= self.stop % batch_size

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-self.stop // self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the positions of each batch, in new orders at each call."""
        if self.shuffle:
            # Drawn on the CPU, so that every device sees the same batches.
            orders = [torch.randperm(self.n_rows, generator=g) for g in self.generators]
        else:
            orders = [torch.arange(self.n_rows)]
        positions = (orders[0] if len(orders) == 1 else torch.stack(orders)).to(self.device)
        for start in range(0, self.stop, self.batch_size):
            yield positions[..., start : min(start + self.batch_size, self.stop)]


class Batches:
    """Whole batches by indexing; nothing is collated row by row.

    Parameters
    ----------
    rows : Rows
        Where the batches come from.
    sampler : BatchSampler
        Which rows they hold. When one batch holds all rows they come as they lie, shared by all
        members: the order of the rows of a batch means nothing.
    """

    def __init__(self, rows: Rows, sampler: BatchSampler) -> None:
        self.one_batch = sampler.batch_size >= len(rows)
        self.rows = rows.all() if self.one_batch else rows
        self.sampler = sampler

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one epoch."""
        if self.one_batch:
            yield self.rows.X, (self.rows.y, self.rows.weight)
            return
        for position in self.sampler:
            yield self.rows[position]


def stratified_folds(y: np.ndarray, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random fold for each row, folds and the classes in them of equal size to one row.

    `sklearn.model_selection.StratifiedKFold` would refuse classes of fewer rows than folds.

    Parameters
    ----------
    y : ndarray of shape (n,), int
        Class indices.
    n_folds : int
        Number of folds, at most n.
    rng : numpy.random.Generator
        Where folds are drawn from.

    Returns
    -------
    ndarray of shape (n,), int
        Numbers of folds.
    """
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    folds = np.empty(len(y), dtype=np.int64)
    folds[order] = np.arange(len(y)) % n_folds
    return folds


def stratified_split(
    y: np.ndarray, fraction: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of training and validation rows, each class in its share.

    A class with one row stays in training, so that no class is lost to it. `train_test_split`
    would refuse such data, and small data with many classes.

    Parameters
    ----------
    y : ndarray of shape (n,), int
        Class indices.
    fraction : float
        Share of the rows to hold out, in (0, 1).
    rng : numpy.random.Generator
        Where the choice is drawn from.

    Returns
    -------
    train, valid : ndarray of int
        Sorted positions; `valid` is empty if every class has one row only.
    """
    order = rng.permutation(len(y))
    counts = np.bincount(y)
    share = fraction * counts
    held_out = np.minimum(share.astype(int), np.maximum(counts - 1, 0))
    # The rows that rounding down left over go to the classes that lost most by it.
    missing = max(round(fraction * len(y)), 1) - held_out.sum()
    for label in np.argsort(held_out - share, kind="stable"):
        if missing > 0 and held_out[label] < counts[label] - 1:
            held_out[label] += 1
            missing -= 1
    valid = np.concatenate([order[y[order] == k][:n] for k, n in enumerate(held_out)])
    return np.setdiff1d(np.arange(len(y)), valid), np.sort(valid)
