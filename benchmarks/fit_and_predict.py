"""Times of DAREEnsembleClassifier as ratios to a bare torch loop with the same arithmetic.

Usage: python benchmarks/fit_and_predict.py [--repeats N]

Ours and the bare loop take turns; each figure is the minimum of its repeats, each ratio from one
run. Memory is the peak of the process over what input and output take, for two numbers of rows.
"""

import argparse
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional

from sklearn_probly import DAREEnsembleClassifier

MEMBERS, BATCH, THRESHOLD, EPS = 3, 256, 0.3, 1.1920929e-07
CASES = {  # name: (rows, features, classes, hidden layers, epochs)
    "MNIST size": (60_000, 784, 10, (256, 256), 1),
    "1,000 x 20": (1_000, 20, 2, (64, 64), 50),
}


def bare_fit(X, y, n_classes, hidden, epochs):
    """Train stacked members: indexed batches, fused Adam, closed-form anti-regularization."""
    sizes = [X.shape[1], *hidden, n_classes]
    parameters = []
    for n_in, n_out in pairwise(sizes):
        bound = n_in**-0.5
        parameters.append(torch.empty(MEMBERS, n_in, n_out).uniform_(-bound, bound))
        parameters.append(torch.empty(MEMBERS, 1, n_out).uniform_(-bound, bound))
    for p in parameters:
        p.requires_grad_()
    d = sum(p.numel() for p in parameters) / MEMBERS
    optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    for _ in range(epochs):
        order = torch.stack([torch.randperm(len(X)) for _ in range(MEMBERS)])
        for start in range(0, len(X), BATCH):
            index = order[:, start : start + BATCH]
            x, target = X.index_select(0, index.reshape(-1)).view(*index.shape, -1), y[index]
            for i in range(0, len(parameters), 2):
                x = torch.baddbmm(parameters[i + 1], x, parameters[i])
                x = torch.relu(x) if i + 2 < len(parameters) else x
            loss = functional.cross_entropy(x.flatten(0, 1), target.flatten(), reduction="none")
            loss = loss.view(MEMBERS, -1).mean(1)
            optimizer.zero_grad()
            loss.sum().backward()
            gate = (loss.detach() <= THRESHOLD).float().view(-1, 1, 1) * (-0.2 / d)
            for p in parameters:
                theta = p.detach()
                p.grad.addcdiv_(theta * gate, theta * theta + EPS)
            optimizer.step()


def bare_forward(members, X):
    with torch.inference_mode():
        for start in range(0, len(X), BATCH):
            for member in members:
                member(X[start : start + BATCH])


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turns(repeats, *functions):
    """Return the least seconds of each function, run one after the other, again and again."""
    times = [[seconds(function) for function in functions] for _ in range(repeats)]
    return np.min(times, axis=0)


def peak_mib(rows):
    """Peak memory of predict_uncertainty beyond the input and the fitted process, MiB."""
    code = f"""
import resource, numpy as np
from sklearn_probly import DAREEnsembleClassifier
rng = np.random.default_rng(0)
X = rng.random((1000, 100))
est = DAREEnsembleClassifier(max_epochs=1, random_state=0).fit(X, np.arange(1000) % 10)
est.predict_uncertainty(X)
X = np.ones(({rows}, 100)); X += 1
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
est.predict_uncertainty(X)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(out.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {MEMBERS} members")
    print(f"{'':12} {'what':24} {'ours, s':>9} {'bare, s':>9} {'ratio':>7}")
    for name, (rows, features, n_classes, hidden, epochs) in CASES.items():
        X = rng.random((rows, features), dtype=np.float32)
        y = (X[:, :n_classes].argmax(1)).astype(np.int64)
        estimator = DAREEnsembleClassifier(
            hidden_layer_sizes=hidden, max_epochs=epochs, early_stopping=False, random_state=0
        )
        ours, bare = in_turns(
            repeats,
            lambda e=estimator, X=X, y=y: e.fit(X, y),
            lambda a=(X, y, n_classes, hidden, epochs): bare_fit(*a),
        )
        print(f"{name:12} {'fit':24} {ours:9.4f} {bare:9.4f} {ours / bare:7.3f}")
        members = [estimator.module_.member(m) for m in range(MEMBERS)]
        new = X[:10_000]
        ours, bare = in_turns(
            repeats,
            lambda e=estimator, new=new: e.predict_with_uncertainty(new),
            lambda m=members, new=new: bare_forward(m, torch.from_numpy(new)),
        )
        print(
            f"{name:12} {'predict_with_uncertainty':24} {ours:9.4f} {bare:9.4f} {ours / bare:7.3f}"
        )
    for rows in (10_000, 1_000_000):
        print(f"peak memory of predict_uncertainty, {rows:9,} rows: {peak_mib(rows):6.1f} MiB")


if __name__ == "__main__":
    main()
