"""How fast, as ratios: against plain NumPy, against one sum of the same columns, and across sizes.

Every ratio comes from one run of one process, each time the best of several rounds in turn, so
that a noisy machine disturbs both sides alike.

    make bench                 # prints the table
    make bench > benchmarks/RESULTS.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from made_by import made_by

import belated as bl

ROUNDS = 5


def experiment(rows: int, arms: int, delays: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of a log: Dirichlet propensities, normal outcomes, a tenth never arriving."""
    rng = np.random.default_rng(seed)
    propensity = rng.gamma(5.0, size=(rows, arms))
    propensity /= propensity.sum(axis=1, keepdims=True)
    arm = (propensity.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=arms - 1)
    delay = {"none": lambda: np.zeros(rows), "geometric": lambda: rng.geometric(0.01, rows) - 1.0,
             "pareto": lambda: np.floor(rng.pareto(0.75, rows))}[delays]()  # fmt: skip
    outcome = rng.normal(size=rows) + 0.1 * arm
    delay[rng.random(rows) < 0.1] = np.inf
    outcome[np.isinf(delay)] = np.nan
    arrived_at = np.arange(1, rows + 1) + delay
    return {"arm": arm, "outcome": outcome, "propensity": propensity, "arrived_at": arrived_at}


def numpy_daipw(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The same estimator in plain vectorised NumPy, as if every outcome came at once."""
    arm, y, pi = columns["arm"], np.nan_to_num(columns["outcome"]), columns["propensity"]
    arrived = ~np.isnan(columns["outcome"])
    values, variances = [], []
    for k in range(pi.shape[1]):
        own = (arm == k) & arrived
        n = np.cumsum(own) - own
        total = np.cumsum(own * y) - own * y
        model = np.divide(total, n, out=np.zeros(len(y)), where=n > 0)
        h = np.sqrt(pi[:, k])
        weight = h * own / pi[:, k]
        value = (weight * (y - model)).sum() / weight.sum() + (h * model).sum() / h.sum()
        values.append(value)
        variances.append((weight**2 * (y - value) ** 2).sum() / weight.sum() ** 2)
    return np.array(values), np.array(variances)


def answer(columns: dict[str, np.ndarray], estimator: str) -> bl.Estimate:
    """From arrays to answers, validation included."""
    estimate = bl.estimate(bl.Log(**columns), estimator)
    _ = estimate.std_errors
    return estimate


def best(*tasks: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Return each task's best time of several rounds, taken in turn."""
    times = [[] for _ in tasks]
    for _ in range(rounds):
        for task, seconds in zip(tasks, times, strict=True):
            start = time.perf_counter()
            task()
            seconds.append(time.perf_counter() - start)
    return [min(seconds) for seconds in times]


def peak_beyond(rows: int) -> float:
    """Return how far a fresh process's memory rises above its input, in bytes a row."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import speed;"
        "speed.answer(speed.experiment(100_000, 2, 'geometric'), 'daipw'); columns = speed.read(sys.argv[2]);"
        "before = speed.peak(); speed.answer(columns, 'daipw'); print(speed.peak() - before)"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, column in experiment(rows, 2, "geometric").items():
            np.save(Path(folder) / f"{name}.npy", column)
        parent = str(Path(__file__).parent)
        done = subprocess.run([sys.executable, "-c", code, parent, folder], check=True, capture_output=True, text=True)  # noqa: S603
    return float(done.stdout) / rows


def peak() -> int:
    """Return the most memory this process has ever held, in bytes (Linux)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def read(folder: str) -> dict[str, np.ndarray]:
    """Return the columns saved in a folder."""
    return {path.stem: np.load(path) for path in Path(folder).glob("*.npy")}


def seconds_of(code: str) -> float:
    """Return the best time of a fresh interpreter running `code`."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
        times.append(time.perf_counter() - start)
    return min(times)


def two_arms(rows: int, delays: str, line: Callable[[str, float, str], None]) -> float:
    """Measure both estimators against NumPy and a scan; return the time of `daipw`."""
    columns = experiment(rows, 2, delays)
    ours, theirs, dipw, scan = best(
        lambda: answer(columns, "daipw"),
        lambda: numpy_daipw(columns),
        lambda: answer(columns, "dipw"),
        lambda: [column.sum() for column in columns.values()],
    )
    nanoseconds = [f"{name} {seconds / rows * 1e9:.0f}" for name, seconds in
                   (("daipw", ours), ("NumPy", theirs), ("dipw", dipw), ("scan", scan))]  # fmt: skip
    print(f"{delays} delays, ns a row: {', '.join(nanoseconds)}", file=sys.stderr)
    line(f"`daipw`, delays {delays}, to NumPy without delays", ours / theirs, "at most 0.33")
    line(f"`dipw`, delays {delays}, to one sum of the columns", dipw / scan, "at most 15")
    return ours


def by_segment(rows: int, line: Callable[[str, float, str], None]) -> None:
    """Measure the sums of a log with 10 segments, and with 5 covariates, against those of the same log without."""
    columns, rng = experiment(rows, 2, "geometric"), np.random.default_rng(1)
    segment = rng.integers(10, size=rows)
    covariates = {f"x{i}": rng.normal(size=rows) for i in range(5)}

    def fresh(**options: object) -> bl.Log:
        log = bl.Log(**columns, **options)
        _ = log.schedule  # the order of events, which every log needs
        return log

    options = ({}, {"segment": segment}, {"covariates": covariates})
    times: list[list[float]] = [[], [], []]
    for round_ in range(ROUNDS + 1):
        for each, seconds in zip(options, times, strict=True):
            log = fresh(**each)
            start = time.perf_counter()
            bl.Sums.of(log)
            if round_ > 0:  # the first compiles
                seconds.append(time.perf_counter() - start)
    plain, segments, adjusted = map(np.median, times)
    line("sums with 10 segments to sums without", segments / plain, "at most 1.3")
    line("sums with 5 covariates to sums without", adjusted / plain, "at most 3")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    lines = []

    def line(what: str, ratio: float, target: str) -> None:
        lines.append(f"| {what} | {ratio:.2f} | {target} |")

    answer(experiment(1000, 2, "geometric"), "daipw")
    bl.Log(**experiment(100_000, 2, "geometric"))
    answer(experiment(100_000, 2, "geometric"), "daipw")  # compiled from here on

    base = {delays: two_arms(rows, delays, line) for delays in ("none", "geometric", "pareto")}
    columns = experiment(rows, 10, "geometric")
    (ours,) = best(lambda: answer(columns, "daipw"))
    line("`daipw`, 10 arms to 2 arms", ours / base["geometric"], "at most 3")
    by_segment(rows, line)
    line("peak memory beyond the input, `daipw`, bytes a row", peak_beyond(rows), "at most 24")
    line("`import belated` to `import numpy, scipy.stats`",
         seconds_of("import belated") / seconds_of("import numpy, scipy.stats"), "at most 2")  # fmt: skip
    small = (
        "import numpy as np, belated as bl;"
        "bl.estimate(bl.Log([0, 1] * 500, np.arange(1000.0), np.full((1000, 2), .5))).contrast(1, 0)"
    )
    line("first answer (1,000 rows) in a new process to `import numpy, scipy.stats`",
         seconds_of(small) / seconds_of("import numpy, scipy.stats"), "-")  # fmt: skip

    print(f"# Speed\n\n{rows:,} rows. {made_by()}\n")
    print("| what | ratio | target |\n|:--|--:|--:|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
