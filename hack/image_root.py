"""Collects the root of the image: an interpreter, its libraries, our packages, and nothing else.

Run in the first stage of the Dockerfile, by the interpreter that the packages were installed for:

    python3 image_root.py /staging /opt/py-scheduler

What is dynamically linked is asked of ``ldd``. No shell, no package manager and no compiler come
along; which Debian packages the libraries are from is noted where scanners look for it. Nothing but
the standard library is imported here.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

USER: Final = 65532
# Of the standard library: what tests it, shows it in windows, or installs packages.
_SPARED: Final = shutil.ignore_patterns(
    "__pycache__",
    "config-*",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
)
_ETC: Final = {
    "passwd": f"nonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n",
    "group": f"nonroot:x:{USER}:\n",
    "nsswitch.conf": "hosts: files dns\n",
}
_AS_THEY_ARE: Final = (
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/os-release",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/openssl.cnf",
)


def collect(root: Path, environment: Path) -> None:
    """Fill *root*; *environment* is the virtual environment that goes with it."""
    interpreter = Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]  # noqa: SLF001
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, _under(root, library), symlinks=True, ignore=_SPARED)
    shutil.copytree(environment, _under(root, environment), symlinks=True)
    _copy(root, interpreter)
    # The environment's own links end at one of these names.
    for name in ("python3", "python"):
        link = _under(root, interpreter.parent / name)
        link.unlink(missing_ok=True)
        link.symlink_to(interpreter.name)
    needed = _libraries([interpreter, *library.rglob("*.so"), *environment.rglob("*.so*")])
    for each in needed:
        _copy(root, each)
    for name in _AS_THEY_ARE:
        _copy(root, Path(name))
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    _note_packages(root, needed)
    subprocess.run(["ldconfig", "-r", root], check=True)
    _compile(root, library, environment)


def _under(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _copy(root: Path, path: Path) -> None:
    """Copy a file or folder to where it was, as what it points to."""
    target = _under(root, path)
    if target.exists() or not path.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target)
    else:
        shutil.copy2(path, target)


def _libraries(binaries: list[Path]) -> list[Path]:
    """Return what *binaries* are linked with, as the loader finds it, and the loader itself."""
    said = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^\t(?:\S+ => )?(/\S+) \(0x", said, re.MULTILINE)
    ours = tuple(str(path.parent) for path in binaries)
    return sorted({Path(each) for each in found if not each.startswith(ours)})


def _note_packages(root: Path, files: list[Path]) -> None:
    """Write down the Debian packages of *files*, one file each, as distroless images do."""
    where = root / "var/lib/dpkg/status.d"
    where.mkdir(parents=True)
    paths = {str(form) for each in files for form in (each, each.resolve(), Path(f"/usr{each}"))}
    said = subprocess.run(
        ["dpkg", "-S", *sorted(paths)], capture_output=True, text=True, check=False
    )
    for package in sorted(set(re.findall(r"^([^:\s]+)(?::\S+)?: ", said.stdout, re.MULTILINE))):
        status = subprocess.run(["dpkg", "-s", package], capture_output=True, text=True, check=True)
        (where / package).write_text(status.stdout)


def _compile(root: Path, *folders: Path) -> None:
    """Make bytecode, which no read-only root could; it is not checked against times of files."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for folder in folders:
        within = _under(root, folder)
        compileall.compile_dir(
            within, quiet=2, workers=0, invalidation_mode=mode, stripdir=root, prependdir="/"
        )


if __name__ == "__main__":
    collect(Path(sys.argv[1]), Path(sys.argv[2]))
