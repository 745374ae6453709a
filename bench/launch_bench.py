"""What loading ebbtide adds to `import torch`, by each way in.

Fresh processes import torch by turns: without ebbtide, with the entry point of the
installed package, and as a child of `ebbtide run`. Processor time, the least of each:
the machine may do other things, an import cannot be cheaper than it is.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import harness

SEED = 0
MOST = 0.010  # seconds more than without
SCRIPT = (
    "import time; begin = time.process_time(); import torch;"
    "print(time.process_time() - begin)"
)
IMPORT = [str(harness.PYTHON), "-c", SCRIPT]
RUN = [str(harness.EBBTIDE), "run", "--budget", "8GiB", "--", *IMPORT]
WAYS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "without": (IMPORT, {}),
    "installed, not asked": (IMPORT, {"EBBTIDE_DISABLE": "1"}),
    "installed, with a budget": (IMPORT, {"EBBTIDE_BUDGET": "8GiB"}),
    "ebbtide run": (RUN, {}),
}


def seconds(way: str) -> float:
    command, variables = WAYS[way]
    done = subprocess.run(
        command,
        env={**harness.clean_environment(), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main() -> int:
    args = harness.bench_parser(__doc__, "8 imports instead of 30").parse_args()
    least = dict.fromkeys(WAYS, float("inf"))
    for _ in range(8 if args.quick else 30):
        for way in WAYS:
            least[way] = min(least[way], seconds(way))
    base = least["without"]
    rows: list[dict[str, Any]] = [
        {"way": way, "seconds": took, "more": took - base}
        for way, took in least.items()
    ]
    table = harness.table(
        [
            ["import torch", "least CPU ms", "more ms"],
            *(
                [row["way"], f"{1e3 * row['seconds']:.1f}", f"{1e3 * row['more']:+.1f}"]
                for row in rows
            ),
        ]
    )
    harness.report(args, "launch", SEED, rows, table, "Import time")
    found = [
        f"{row['way']}: {1e3 * row['more']:.1f} ms more than without"
        for row in rows
        if row["more"] > MOST
    ]
    return harness.verdict("launch", found, args.check)


if __name__ == "__main__":
    sys.exit(main())
