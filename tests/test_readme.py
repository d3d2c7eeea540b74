"""Every command and snippet of the README runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.S)


@pytest.mark.parametrize("code", [code for language, code in BLOCKS if language == "python"])
def test_snippets_run(code):
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    assert "Look again at rows" in out.stdout


def test_commands_are_targets_and_the_test_command_is_what_ci_runs():
    commands = "".join(code for language, code in BLOCKS if language == "sh").split("\n")
    assert [c for c in commands if c] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:.*\n\t.*examples/quickstart.py", makefile, re.M)
    assert re.search(r"^test: lint test-fast", makefile, re.M)
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("\nmake test")


def test_the_demo_runs(tmp_path):
    picture = tmp_path / "picture.png"
    command = [sys.executable, "examples/quickstart.py", "--output", str(picture)]
    out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    assert picture.stat().st_size > 1000
    value = {
        name.strip(): float(number)
        for name, number in re.findall(r"^(.+?)\s+(\d\.\d{4})$", out.stdout, re.M)
    }
    assert value["accuracy"] > 0.95
    assert value["AUROC of the uncertainty for errors"] > 0.85
    assert value["accuracy on the 90 % it is most sure of"] > value["accuracy"]


@pytest.mark.slow
def test_the_demo_runs_on_mnist(tmp_path, shared_data):
    command = [sys.executable, "examples/quickstart.py", "--data", "mnist"]
    command += ["--data-home", str(shared_data), "--output", str(tmp_path / "picture.png")]
    out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    assert float(re.search(r"^accuracy +(\S+)", out.stdout, re.M)[1]) > 0.97


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
