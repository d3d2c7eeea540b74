from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data():
    """Folder of real data sets beside the repository; its README says what is in it."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the data sets in {SHARED_DATA}")
    return SHARED_DATA
