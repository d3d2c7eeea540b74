import http.client
import sys
from urllib.error import URLError

import numpy as np
import pytest
import torch

from sklearn_probly.datasets import load_mnist

FILES = [
    f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
]
IMAGES = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 256
LABELS = np.array([7, 0, 9])

torchvision = pytest.importorskip("torchvision")


def write_idx(path, values):
    sizes = np.array(values.shape, dtype=">i4").tobytes()
    path.write_bytes(bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes())


@pytest.fixture
def folder(tmp_path):
    """A data folder with three training digits and two test digits."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, n_samples in [("train", 3), ("t10k", 2)]:
        write_idx(raw / f"{part}-images-idx3-ubyte", IMAGES[:n_samples])
        write_idx(raw / f"{part}-labels-idx1-ubyte", LABELS[:n_samples])
    return tmp_path


@pytest.fixture
def fetched(monkeypatch):
    """Stand in for the network, which is down: record what would have been fetched."""
    fetched = []

    def fail(url, *args, **kwargs):
        fetched.append(url)
        raise URLError("no network")

    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", fail)
    return fetched


@pytest.mark.parametrize("download", [True, False])
def test_present_files_are_used(folder, fetched, download):
    X, y = load_mnist(folder, download=download)
    assert fetched == []
    assert (X.dtype, X.shape) == (np.float32, (3, 784))
    np.testing.assert_array_equal(X, (IMAGES.reshape(3, 784) / 255).astype(np.float32))
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, LABELS)


def test_images_keep_their_shape_where_asked(folder):
    X, _ = load_mnist(folder, flatten=False)
    assert X.shape == (3, 1, 28, 28)
    np.testing.assert_array_equal(X.reshape(3, 784), load_mnist(folder)[0])


def test_test_digits(folder):
    X, y = load_mnist(folder, train=False)
    assert X.shape == (2, 784)
    np.testing.assert_array_equal(y, LABELS[:2])


def test_data_home_may_be_a_string(folder):
    assert len(load_mnist(str(folder))[0]) == 3


def test_default_folder_is_that_of_scikit_learn(folder, monkeypatch):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(folder))
    assert len(load_mnist(download=False)[0]) == 3


def test_random_state_is_left_alone(folder):
    before = torch.get_rng_state()
    load_mnist(folder)
    assert torch.equal(torch.get_rng_state(), before)


def check_says_what_to_put_where(error, folder):
    assert all(name in str(error) for name in FILES)
    assert str(folder / "MNIST" / "raw") in str(error)


def test_no_network(tmp_path, fetched):
    with pytest.raises(
        OSError, match=r"could not be loaded \(RuntimeError: Error downloading [\s\S]*no network"
    ) as info:
        load_mnist(tmp_path)
    assert fetched
    check_says_what_to_put_where(info.value, tmp_path)


def test_no_files_and_no_download(tmp_path, fetched):
    with pytest.raises(OSError, match=r"not found.*download=True, or put the four") as info:
        load_mnist(tmp_path, download=False)
    assert fetched == []
    check_says_what_to_put_where(info.value, tmp_path)


def test_connection_lost(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise http.client.IncompleteRead(b"")

    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", fail)
    with pytest.raises(OSError, match=r"could not be loaded \(IncompleteRead"):
        load_mnist(tmp_path)


@pytest.mark.parametrize("n_bytes", [0, 2, 17, 800])
def test_damaged_file(folder, n_bytes):
    path = folder / "MNIST" / "raw" / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.raises(OSError, match=r"could not be loaded.*put the four uncompressed files"):
        load_mnist(folder)


def test_without_torchvision(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-probly\[vision\]'"):
        load_mnist(tmp_path)


def test_real_digits(shared_data):
    X, y = load_mnist(shared_data)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(y).tolist() == counts
    assert X.shape == (60000, 784)
    assert (X.min(), X.max()) == (0, 1)
    assert X.mean(dtype=float) == pytest.approx(0.1307, abs=1e-4)
    assert X.std(dtype=float) == pytest.approx(0.3081, abs=1e-4)

    X, y = load_mnist(shared_data, train=False, flatten=False)
    assert (X.shape, y.shape) == ((10000, 1, 28, 28), (10000,))
