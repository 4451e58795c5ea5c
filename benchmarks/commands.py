"""Commands: what starting them costs, against what the libraries under them need for less, in one run.

CPU seconds of whole processes, medians of several rounds in which every command runs once. `python
benchmarks/commands.py` writes COMMANDS.md.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from made_by import made_by
from tables import write

ROWS, ROUNDS = 100_000, 7


def cpu(arguments: list[str], environment: dict[str, str]) -> float:
    """Run Python, and return the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, and write the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write(path, ROWS)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder) / "kernels")}
        # an installed package has its bytecode; here it is kept apart, for all
        environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")}
        aggregate = f"duckdb.sql(\"SELECT arm, avg(outcome) FROM '{path}' GROUP BY arm\").fetchall()"  # noqa: S608
        analyze = ["-m", "belated", "analyze", str(path)]
        commands = {
            "numpy": ["-c", "import numpy"],
            "duckdb": ["-c", f"import duckdb, numpy; {aggregate}"],
            "import": ["-c", "import belated"],
            "help": ["-m", "belated", "--help"],
            "analyze": analyze,
        }
        cold = cpu(analyze, environment)
        rounds = [{name: cpu(arguments, environment) for name, arguments in commands.items()} for _ in range(ROUNDS)]
    seconds = {name: statistics.median(each[name] for each in rounds) for name in commands}
    lines = [
        _line("`import belated`", seconds["import"], "`import numpy`", seconds["numpy"], "1"),
        _line("`belated --help`", seconds["help"], "`import numpy`", seconds["numpy"], "3"),
        _line(f"`belated analyze`, {ROWS:,} rows", seconds["analyze"], "average by arm", seconds["duckdb"], "5"),
        _line("the same the first time, compiling", cold, "average by arm", seconds["duckdb"], None),
    ]
    text = "\n".join([_HEAD, *lines, "", made_by(), ""])
    (Path(__file__).parent / "COMMANDS.md").write_text(text)
    print(text)


def _line(what: str, ours: float, floor_name: str, floor: float, most: str | None) -> str:
    target = "-" if most is None else f"at most {most}"
    return f"| {what} | {ours:.2f} | {floor_name} | {floor:.2f} | {ours / floor:.1f} | {target} |"


_HEAD = f"""# Starting commands

CPU seconds of whole processes, start-up included: medians of {ROUNDS} rounds in which each ran once. The floors are
`python -c` with `import numpy`, and with `import duckdb, numpy` and `select arm, avg(outcome) ... group by arm` over
the same Parquet file. Kernels are compiled once and kept; the first call waits for them.
Measure in an environment with only the package and what it needs, because numba searches every installed package for
plug-ins.

| what | s | floor | s | ratio | target |
|:--|--:|:--|--:|--:|--:|"""


if __name__ == "__main__":
    main()
