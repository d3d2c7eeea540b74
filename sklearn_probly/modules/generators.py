"""torch's global generators, which what is not ours may draw from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# One thread at a time may hold them.
_held = threading.RLock()


@contextmanager
def borrowed_global_generators(seed: int) -> Iterator[None]:
    """Seed torch's global generators for the block, and put their states back after it."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _held, torch.random.fork_rng(list(devices)):
        seed_global_generators(seed)
        yield


def seed_global_generators(seed: int) -> None:
    """Seed those that `borrowed_global_generators` puts back: `torch.manual_seed` seeds others."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
