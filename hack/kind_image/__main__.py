"""Build the node image and print its tag, which ``make e2e-kind`` takes as ``--image``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hack.binaries import MissingBinariesError
from hack.kind import engine_missing
from hack.kind_image import TAG, build


def main() -> None:
    """Say in one line what is missing, if something is."""
    parser = argparse.ArgumentParser(prog="python -m hack.kind_image", description=__doc__)
    parser.add_argument("--tag", default=TAG, help="how it is to be called (default: %(default)s)")
    parser.add_argument("--debian", type=Path, help="a tar of the packages, if it is there already")
    arguments = parser.parse_args()
    if why := engine_missing():
        sys.exit(f"There is nothing to build an image with: {why}")
    try:
        print(build(arguments.tag, arguments.debian))
    except (MissingBinariesError, OSError, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
