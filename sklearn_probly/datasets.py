"""Data sets. Nothing is imported from torchvision, or downloaded, before a loader is called."""

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import get_data_home

__all__ = ["load_mnist"]

_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def load_mnist(
    data_home: str | PathLike[str] | None = None,
    *,
    train: bool = True,
    flatten: bool = True,
    download: bool = True,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Load the MNIST handwritten digits, through torchvision.

    Parameters
    ----------
    data_home : str, path-like or None, default=None
        Folder that holds, or is to hold, ``MNIST/raw``. None is scikit-learn's data folder,
        :func:`sklearn.datasets.get_data_home`.
    train : bool, default=True
        True loads the 60,000 training digits, False the 10,000 test digits.
    flatten : bool, default=True
        True gives a row of 784 pixels for each digit; False gives images of shape (1, 28, 28),
        as convolutional modules take them.
    download : bool, default=True
        Whether to download the files (12 MB) if they are not there yet.

    Returns
    -------
    X : ndarray of shape (n_samples, 784) or (n_samples, 1, 28, 28)
        Grey values between 0 (paper) and 1 (ink), float32.
    y : ndarray of shape (n_samples,)
        Digits 0 to 9, int64.

    Raises
    ------
    ImportError
        If torchvision is not installed.
    OSError
        If the files are not there and cannot be downloaded, or cannot be read.

    References
    ----------
    .. [1] Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, "Gradient-based learning applied to
       document recognition", Proceedings of the IEEE 86, 1998.

    Examples
    --------
    >>> from sklearn_probly.datasets import load_mnist
    >>> X, y = load_mnist()  # doctest: +SKIP
    >>> X.shape, y.shape  # doctest: +SKIP
    ((60000, 784), (60000,))
    """
    try:
        from torchvision.datasets import MNIST
    except ImportError as error:
        raise ImportError(
            "load_mnist needs torchvision, which is not installed. "
            "Run: pip install 'sklearn-probly[vision]'"
        ) from error

    root = Path(get_data_home() if data_home is None else data_home).expanduser()
    try:
        mnist = MNIST(root, train=train, download=download)
    except Exception as error:  # torchvision raises nearly anything where a file is damaged
        raise OSError(
            f"MNIST could not be loaded ({type(error).__name__}: {str(error).strip()}). Either "
            "check the connection and pass download=True, or put the four uncompressed files "
            f"{', '.join(_FILES)} into {root / 'MNIST' / 'raw'}."
        ) from error
    X = mnist.data.numpy().astype(np.float32)
    X /= 255
    return X.reshape(len(X), -1) if flatten else X[:, np.newaxis], mnist.targets.numpy()
