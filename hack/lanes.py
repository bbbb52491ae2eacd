"""Runs every lane of ``make test`` and prints what each took; pytest comes last."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

BIN: Final = Path(sys.executable).parent
LANES: Final[dict[str, list[str | Path]]] = {
    "format": [BIN / "ruff", "format", "--check", "."],
    "lint": [BIN / "ruff", "check", "."],
    "types": [BIN / "mypy"],
    "rooms": [BIN / "lint-imports"],
    "binaries": [sys.executable, "-m", "hack.binaries"],
    "e2e": [sys.executable, "-m", "pytest", "-q", "tests/e2e"],
    "tests": [sys.executable, "-m", "pytest", "--ignore=tests/e2e"],
}


def main() -> int:
    """Run the lanes in order; the first that fails ends the run."""
    for name, command in LANES.items():
        extra = sys.argv[1:] if name == "tests" else []
        print(f"── {name}", flush=True)
        started = time.monotonic()
        code = subprocess.run([*map(str, command), *extra], check=False).returncode
        if name != "tests":  # pytest's own last line has its time
            print(f"── {name}: {time.monotonic() - started:.1f} s", flush=True)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
