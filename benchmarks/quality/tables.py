"""Ten tables, five seeds of split and model: the five at their defaults, and their peers.

Usage: python benchmarks/quality/tables.py TABLES [--out FILE] [--seeds N] [--models NAME ...]

TABLES is the folder of the tables. Results are added to FILE, one line each; what is there is not
run again, so that a run that was stopped goes on. `report.py` reads them.
"""

import argparse
import warnings
from functools import partial

import data
import torch
from measure import measure
from models import MODELS
from results import run


def one(folder, table, model, seed):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    frame, y = data.load(folder, table)
    return measure(MODELS[model](random_state=seed), *data.split(frame, y, seed))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--out", default="benchmarks/quality/tables.jsonl")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=list(data.TABLES))
    parser.add_argument("--models", nargs="+", default=[m for m in MODELS if m != "TabM"])
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    jobs = [
        {"table": table, "model": model, "seed": seed}
        for seed in range(args.seeds)
        for table in args.tables
        for model in args.models
    ]
    run(args.out, jobs, partial(one, args.folder), args.processes)


if __name__ == "__main__":
    main()
