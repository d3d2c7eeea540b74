"""The results of `tables.py` as Markdown, and a picture of mean ranks.

Usage: python benchmarks/quality/report.py [FILE] [--picture PNG]
"""

import argparse
from collections import defaultdict

import numpy as np
from models import MODELS, OURS, PEERS
from results import read
from scipy.stats import rankdata, studentized_range

METRICS = {
    "log_loss": ("Log-loss (nats)", 3),
    "aurc": ("Area under risk-coverage, by the largest probability", 4),
    "accuracy": ("Accuracy", 3),
    "ece": ("Expected calibration error", 3),
    "error_auroc": ("AUROC of error detection", 3),
    "fit_seconds": ("Fit, seconds on one core", 1),
}
LARGER_IS_BETTER = ("accuracy", "error_auroc")


def means(lines, metric):
    """Return ``{table: {model: (mean, standard error, number of seeds)}}``."""
    values = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if metric in line:
            values[line["table"]][line["model"]].append(line[metric])
    return {
        table: {
            model: (np.mean(v), np.std(v, ddof=1) / len(v) ** 0.5 if len(v) > 1 else np.nan, len(v))
            for model, v in of_model.items()
        }
        for table, of_model in sorted(values.items())
    }


def table(by_table, models, digits):
    """Return a Markdown table of means and standard errors, the best of a row in bold."""
    yield "| table | " + " | ".join(models) + " |"
    yield "|---" * (len(models) + 1) + "|"
    for name, row in by_table.items():
        best = min((row[m][0] for m in models if m in row), default=np.nan)
        cells = []
        for model in models:
            if model not in row:
                cells.append("-")
                continue
            mean, error, _ = row[model]
            text = f"{mean:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")
            cells.append(f"**{text}**" if mean == best else text)
        yield f"| {name} | " + " | ".join(cells) + " |"


def ranks(by_table, models):
    """Return the mean rank of each model over the tables where all have results, and how many."""
    rows = [
        [row[m][0] for m in models] for row in by_table.values() if all(m in row for m in models)
    ]
    return np.mean([rankdata(row) for row in rows], axis=0) if rows else None, len(rows)


def critical_difference(n_models, n_tables, level=0.05):
    """Return Nemenyi's least difference of mean ranks that is one (Demsar, JMLR 2006)."""
    q = studentized_range.ppf(1 - level, n_models, np.inf) / np.sqrt(2)
    return q * np.sqrt(n_models * (n_models + 1) / (6 * n_tables))


def wins(by_table, ours, peer):
    """Return on how many tables the best of `ours` is below `peer`, and on how many both are."""
    both = [
        (min(row[m][0] for m in ours if m in row), row[peer][0])
        for row in by_table.values()
        if peer in row and any(m in row for m in ours)
    ]
    return sum(best < other for best, other in both), len(both)


def draw(path, models, mean_ranks, difference):
    from matplotlib.figure import Figure

    order = np.argsort(mean_ranks)
    figure = Figure(figsize=(7, 0.35 * len(models) + 1))
    ax = figure.add_subplot()
    ax.scatter(mean_ranks[order], range(len(models)), color="black")
    ax.set_yticks(range(len(models)), [models[i] for i in order])
    ax.plot([mean_ranks.min(), mean_ranks.min() + difference], [-0.7, -0.7], color="black", lw=2)
    ax.text(mean_ranks.min() + difference, -0.7, " critical difference", va="center")
    ax.invert_yaxis()
    ax.set_xlabel("mean rank by log-loss (1 is best)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default="benchmarks/quality/tables.jsonl")
    parser.add_argument("--picture", default=None)
    args = parser.parse_args()
    lines = read(args.file)
    present = [m for m in MODELS if any(line["model"] == m for line in lines)]
    for metric, (title, digits) in METRICS.items():
        by_table = means(lines, metric)
        if metric in LARGER_IS_BETTER:
            shown = {
                t: {m: (-v, *rest) for m, (v, *rest) in r.items()} for t, r in by_table.items()
            }
            text = "\n".join(table(shown, present, digits)).replace("-0.", "0.")
        else:
            text = "\n".join(table(by_table, present, digits))
        print(f"\n### {title}\n\n{text}")
        if metric not in ("log_loss", "aurc"):
            continue
        ranked = [m for m in present if m != "TabM"]
        mean_ranks, n_tables = ranks(by_table, ranked)
        if mean_ranks is not None:
            difference = critical_difference(len(ranked), n_tables)
            shown = sorted(zip(mean_ranks, ranked, strict=True))
            print(
                f"\nMean rank on {n_tables} tables (critical difference {difference:.2f}): ", end=""
            )
            print(", ".join(f"{model} {rank:.1f}" for rank, model in shown) + ".")
            if args.picture and metric == "log_loss":
                draw(args.picture, ranked, mean_ranks, difference)
        print("\n| better than | best of the five | " + " | ".join(OURS) + " |")
        print("|---" * (len(OURS) + 2) + "|")
        for peer in [m for m in (*PEERS, "plain ensemble", "TabM") if m in present]:
            cells = [
                "{} of {}".format(*wins(by_table, ours, peer))
                for ours in (OURS, *([m] for m in OURS))
            ]
            print(f"| {peer} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
