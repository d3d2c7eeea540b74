"""What the phases of one fit share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..modules.embeddings import FeatureEmbedding
from ._data import Rows
from ._progress import Progress
from ._random import Streams


@dataclass
class FitContext:
    """What the phases of one fit share.

    Attributes
    ----------
    train, valid : Rows
        Training rows, and validation rows if there are any.
    n_classes : int
        Number of classes.
    streams : Streams
        Where random numbers come from.
    device : torch.device
        Where everything is.
    progress : Progress
        The one progress bar.
    former : torch.nn.Module or None
        The trained module that a warm start or `partial_fit` goes on from.
    single_pass : bool
        One pass over the rows and the main phase only, as `partial_fit` does.
    net : MemberNet or None
        The net, with its optimizer and history, that the next single pass belongs to.
    embedding : FeatureEmbedding or None
        What the default network begins with.
    """

    train: Rows
    valid: Rows | None
    n_classes: int
    streams: Streams
    device: torch.device
    progress: Progress
    former: nn.Module | None = None
    single_pass: bool = False
    net: Any = None
    embedding: FeatureEmbedding | None = None
