"""Defaults by measurement: candidates on five tables, inside their training parts.

Usage: python benchmarks/quality/choose.py TABLES [--out FILE] [--seeds N] [--only NAME ...]

TABLES is the folder of the tables. Printed for each candidate: the geometric mean, over tables and
seeds, of its log-loss and area under risk-coverage relative to those of the defaults, and seconds
of fit in all.
"""

import argparse
from functools import partial

import data
import numpy as np
import torch
from measure import measure
from results import read, run

from sklearn_probly import (
    BatchEnsembleClassifier,
    DAREEnsembleClassifier,
    DEUPClassifier,
    HetNetClassifier,
    MasksemblesClassifier,
)

METHODS = {
    "BatchEnsemble": BatchEnsembleClassifier,
    "DARE": DAREEnsembleClassifier,
    "Masksembles": MasksemblesClassifier,
    "HetNet": HetNetClassifier,
    "DEUP": DEUPClassifier,
}
PATIENCE = {
    "as it is": {},
    "patience 5": {"n_iter_no_change": 5},
    "patience 16": {"n_iter_no_change": 16},
    "patience 32": {"n_iter_no_change": 32},
    "validation 0.2": {"n_iter_no_change": 16, "validation_fraction": 0.2},
    "patience 32, validation 0.2": {"n_iter_no_change": 32, "validation_fraction": 0.2},
}
COMMON = {
    **PATIENCE,
    "no embedding": {"num_embedding": None},
    "periodic": {"num_embedding": "periodic"},
    "no dropout": {"dropout": 0.0},
    "dropout 0.2": {"dropout": 0.2},
    "lr 1e-3": {"lr": 1e-3},
    "lr 4e-3": {"lr": 4e-3},
    "decay 0.01": {"optimizer": torch.optim.AdamW},
    "silu": {"activation": "silu"},
    "batch 128": {"batch_size": 128},
    "100 epochs": {"early_stopping": False, "max_epochs": 100},
}
CANDIDATES = {
    "BatchEnsemble": {
        **COMMON,
        "4 members": {"num_members": 4},
        "16 members": {"num_members": 16},
        "random_sign": {"scaling_init": "random_sign"},
        "normal": {"scaling_init": "normal"},
    },
    "DARE": {
        **COMMON,
        "3 members": {"num_members": 3},
        "reg_weight 0": {"reg_weight": 0.0},
        "reg_weight 0.01": {"reg_weight": 0.01},
        "reg_weight 1": {"reg_weight": 1.0},
    },
    "Masksembles": {
        **COMMON,
        "4 masks": {"num_masks": 4},
        "scale 1.5": {"scale": 1.5},
        "512 units": {"hidden_layer_sizes": (512, 512)},
    },
    "HetNet": {
        **COMMON,
        "16 draws": {"training_samples": 16},
        "temperature 0.5": {"temperature": 0.5},
        "temperature 2": {"temperature": 2.0},
    },
    "DEUP": COMMON,
}


def candidate(folder, method, name, table, seed):
    torch.set_num_threads(1)
    frame, y = data.load(folder, table)
    X, y, _, _ = data.split(frame, y, seed)
    inner = np.random.default_rng(seed).permutation(len(y))
    valid, train = inner[: len(y) // 4], inner[len(y) // 4 :]
    model = METHODS[method](random_state=seed, **CANDIDATES[method][name])
    return measure(model, X[train], y[train], X[valid], y[valid])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--out", default="choose.jsonl")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--methods", nargs="+", default=list(CANDIDATES))
    parser.add_argument("--only", nargs="+", default=None, help="names of candidates")
    args = parser.parse_args()
    jobs = [
        {"method": method, "name": name, "table": table, "seed": seed}
        for method in args.methods
        for seed in range(args.seeds)
        for name in CANDIDATES[method]
        if args.only is None or name in args.only
        for table in data.CHOICE
    ]
    run(args.out, jobs, partial(candidate, args.folder), args.processes)
    lines = {(r["method"], r["name"], r["table"], r["seed"]): r for r in read(args.out)}
    for method in args.methods:
        first = next(iter(CANDIDATES[method]))
        for name in CANDIDATES[method]:
            pairs = [
                (line, lines[method, first, *key[2:]])
                for key, line in lines.items()
                if key[:2] == (method, name) and (method, first, *key[2:]) in lines
            ]
            if not pairs:
                continue
            loss, aurc = (
                np.exp(np.mean([np.log(ours[what] / base[what]) for ours, base in pairs]))
                for what in ("log_loss", "aurc")
            )
            seconds = sum(ours["fit_seconds"] for ours, _ in pairs)
            print(f"{method:14} {name:28} {len(pairs):3} {loss:7.3f} {aurc:7.3f} {seconds:8.1f}")


if __name__ == "__main__":
    main()
