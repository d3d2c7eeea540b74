from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data beside the repository, described in its README.md."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the data folder {folder}")
    return folder


@pytest.fixture
def pyplot():
    """matplotlib.pyplot that opens no window, with its figures closed afterwards."""
    matplotlib = pytest.importorskip("matplotlib")
    plt = pytest.importorskip("matplotlib.pyplot")
    backend = matplotlib.get_backend()
    plt.switch_backend("agg")
    yield plt
    plt.close("all")
    plt.switch_backend(backend)
