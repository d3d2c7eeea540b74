import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_probly.datasets import load_mnist

FILES = {
    split: (f"{split}-images-idx3-ubyte", f"{split}-labels-idx1-ubyte")
    for split in ("train", "t10k")
}


def write_idx(path, values):
    header = struct.pack(f">I{values.ndim}I", 0x800 + values.ndim, *values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


@pytest.fixture
def fake_mnist(tmp_path):
    """A data_home with three training and two test images, and what is in them."""
    pytest.importorskip("torchvision")
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    contents = {}
    for split, labels in (("train", [5, 0, 9]), ("t10k", [7, 2])):
        images = rng.integers(0, 256, size=(len(labels), 28, 28))
        images[0, 0, :2] = 0, 255
        contents[split] = images, np.array(labels)
        for name, values in zip(FILES[split], contents[split], strict=True):
            write_idx(folder / name, values)
    return tmp_path, contents


@pytest.fixture
def no_download(monkeypatch):
    MNIST = pytest.importorskip("torchvision").datasets.MNIST
    cause = RuntimeError("Error downloading train-images-idx3-ubyte.gz")

    def download(self):
        if not self._check_exists():
            raise cause

    monkeypatch.setattr(MNIST, "download", download)
    return cause


@pytest.mark.parametrize("train", [True, False])
def test_reads_the_files_present(fake_mnist, no_download, train):
    data_home, contents = fake_mnist
    images, labels = contents["train" if train else "t10k"]
    X, y = load_mnist(data_home, train=train)
    assert X.dtype == np.float32
    assert y.dtype == np.int64
    assert type(X) is type(y) is np.ndarray
    assert (X.min(), X.max()) == (0, 1)
    np.testing.assert_allclose(X, images.reshape(len(images), 784) / 255, rtol=1e-6)
    np.testing.assert_array_equal(y, labels)


def test_unflattened(fake_mnist, no_download):
    X, y = load_mnist(str(fake_mnist[0]))
    X_images, y_images = load_mnist(str(fake_mnist[0]), flatten=False)
    assert X_images.shape == (3, 1, 28, 28)
    np.testing.assert_array_equal(X_images.reshape(3, 784), X)
    np.testing.assert_array_equal(y_images, y)


def test_default_data_home_is_scikit_learns(fake_mnist, no_download, monkeypatch):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(fake_mnist[0]))
    assert load_mnist()[0].shape == (3, 784)


def test_failed_download_says_what_to_put_where(tmp_path, no_download):
    with pytest.raises(OSError, match=r"could not be read from .* or downloaded to it") as raised:
        load_mnist(tmp_path)
    for name in FILES["train"] + FILES["t10k"]:
        assert name in str(raised.value)
    assert f"into the folder {tmp_path / 'MNIST' / 'raw'}" in str(raised.value)
    assert "Error downloading" in str(raised.value)
    assert raised.value.__cause__ is no_download


def test_download_false(tmp_path):
    pytest.importorskip("torchvision")
    with pytest.raises(OSError, match=r"and download=False.*Put the files train-images-idx3-ubyte"):
        load_mnist(tmp_path / "absent", download=False)
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("size", [0, 2, 10, 500])
def test_damaged_file(fake_mnist, no_download, size):
    path = fake_mnist[0] / "MNIST" / "raw" / FILES["train"][0]
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(OSError, match="MNIST could not be read"):
        load_mnist(fake_mnist[0])


def test_without_torchvision(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-probly\[vision\]'"):
        load_mnist()


@pytest.mark.parametrize(
    ("train", "counts"),
    [
        (True, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        (False, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    ],
)
def test_real_mnist(shared_data: Path, no_download, train, counts):
    X, y = load_mnist(shared_data, train=train)
    assert X.shape == (sum(counts), 784)
    np.testing.assert_array_equal(np.bincount(y), counts)
    assert (X.min(), X.max()) == (0, 1)
    if train:
        assert X.mean(dtype=float) == pytest.approx(0.1307, abs=5e-5)
        assert X.std(dtype=float) == pytest.approx(0.3081, abs=5e-5)
