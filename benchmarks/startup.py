"""
Start-up times: `import ocular` and `ocular --help`, the median of several fresh processes.

python benchmarks/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from common import save, seconds

RUNS = 7


def median_seconds(*command: str) -> float:
    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    run()
    return statistics.median(seconds(run) for _ in range(RUNS))


def main() -> None:
    times = {
        "python": median_seconds(sys.executable, "-c", "pass"),
        "import ocular": median_seconds(sys.executable, "-c", "import ocular"),
        "from ocular import OCuLaR": median_seconds(sys.executable, "-c", "from ocular import OCuLaR"),
        "ocular --help": median_seconds(str(Path(sys.executable).with_name("ocular")), "--help"),
    }
    target = {"import ocular": "  (target: < 0.3)", "ocular --help": "  (target: < 0.6)"}
    for name, time_ in times.items():
        print(f"{name:28}{time_:.3f} s{target.get(name, '')}")
    save("startup", {"seconds": times})


if __name__ == "__main__":
    main()
