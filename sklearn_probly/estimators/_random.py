"""Random numbers of a fit: independent streams from one seed, by name."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import torch


class Streams:
    """Independent random streams from one seed; asking for one never shifts another.

    Parameters
    ----------
    seed : int
        The one number that a fit draws from `random_state`.
    n_passes : int, default=0
        Passes of `partial_fit` before this one, each with streams of its own.
    """

    def __init__(self, seed: int, n_passes: int = 0) -> None:
        self.seed_ = seed
        self._start = (n_passes,) if n_passes else ()

    def seed(self, *name: str | int) -> int:
        """Return the 63-bit seed of the stream `name`, for example ``("weights", 2)``."""
        path = tuple(crc32(part.encode()) if isinstance(part, str) else part for part in name)
        sequence = np.random.SeedSequence(self.seed_, spawn_key=self._start + path)
        state = sequence.generate_state(1, np.uint64)
        return int(state[0] >> np.uint64(1))

    def numpy(self, *name: str | int) -> np.random.Generator:
        """Return the stream `name` as NumPy's generator."""
        return np.random.default_rng(self.seed(*name))

    def torch(self, *name: str | int, device: torch.device | str = "cpu") -> torch.Generator:
        """Return the stream `name` as a torch generator on `device`."""
        return torch.Generator(device).manual_seed(self.seed(*name))
