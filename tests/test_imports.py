"""Who may import whom, and what an import costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sklearn_probly"
FORBIDDEN = {
    "modules/*.py": {"sklearn", "skorch", "sklearn_probly.estimators"},
    "measures.py": {"torch", "skorch", "sklearn_probly.estimators", "sklearn_probly.modules"},
    "metrics/*.py": {"torch", "skorch", "sklearn_probly.estimators", "sklearn_probly.modules"},
    "uncertainty.py": {"torch", "skorch", "sklearn_probly.estimators", "sklearn_probly.modules"},
    "inspection.py": {"torch", "skorch", "sklearn_probly.estimators", "sklearn_probly.modules"},
    "estimators/*.py": {"sklearn_probly.metrics", "sklearn_probly.inspection"},
}


def imported(path):
    """Yield the absolute names of the modules that the file imports, at any depth."""
    package = ["sklearn_probly", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            yield ".".join([*base, *([node.module] if node.module else [])])


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_imports_go_one_way(pattern):
    for path in PACKAGE.glob(pattern):
        for name in imported(path):
            for forbidden in FORBIDDEN[pattern]:
                assert not f"{name}.".startswith(f"{forbidden}."), (path, name)


def test_estimators_do_not_import_each_other():
    public = list((PACKAGE / "estimators").glob("[!_]*.py"))
    for path in public:
        for other in public:
            assert f"sklearn_probly.estimators.{other.stem}" not in set(imported(path))


def test_optional_packages_are_imported_only_when_used():
    code = (
        "import sys, sklearn_probly; "
        "print([m for m in ('matplotlib', 'torchvision', 'pandas') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() in ("[]", "['pandas']")  # skorch may import pandas
