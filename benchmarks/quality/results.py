"""Results as one line a file; what is there is not run again."""

import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tqdm.auto import tqdm


def read(path):
    """Return the lines of a file of results, dictionaries."""
    path = Path(path)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path, jobs, work, n_processes):
    """Do `work(*job)` for each job (a dict of what names a line) that has no line yet.

    A job that fails is told and leaves no line. Processes have one thread each, so that times can
    be compared.
    """
    done = {tuple(sorted((k, line[k]) for k in jobs[0])) for line in read(path)} if jobs else set()
    todo = [job for job in jobs if tuple(sorted(job.items())) not in done]
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(n_processes, get_context("spawn")) as pool, open(path, "a") as file:
        futures = {pool.submit(work, **job): job for job in todo}
        for future in tqdm(as_completed(futures), total=len(futures)):
            try:
                line = {**futures[future], **future.result()}
            except Exception as error:
                tqdm.write(f"{futures[future]}: {error!r}")
                continue
            file.write(json.dumps(line) + "\n")
            file.flush()
