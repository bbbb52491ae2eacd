"""Make sure that the control plane's binaries exist, and print the directory they are in."""

from __future__ import annotations

import sys

from hack.binaries import ALL, MissingBinariesError, ensure


def main() -> None:
    """Print each directory that holds some of the binaries: one line, unless sources were mixed."""
    try:
        found = ensure(sys.argv[1:] or ALL)
    except MissingBinariesError as error:
        sys.exit(str(error))
    for directory in sorted({path.parent for path in found.values()}):
        print(directory)


if __name__ == "__main__":
    main()
