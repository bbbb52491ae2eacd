"""Every example runs: its own tests pass, and the scheduler can be built with it."""

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scheduler.config.configuration import read
from scheduler.framework.registry import Registry
from scheduler.plugins import IN_TREE

EXAMPLES = Path(__file__).parents[3] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/pyproject.toml"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_tests_of_an_example_pass(folder):
    """In a process of its own, in its folder, as its author would run it."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_entry_points_of_an_example_lead_to_plugins(folder):
    """What the pyproject names is there, goes by that name, and can be enabled in a profile."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    plugins = {
        name: _load(folder, target)
        for name, target in project["entry-points"]["scheduler.plugins"].items()
    }
    assert [plugin.name for plugin in plugins.values()] == list(plugins)

    registry = Registry(IN_TREE).with_plugins(plugins)
    enabled = "".join(f"\n        - name: {name}" for name in plugins)
    spec = read(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles:\n  - plugins:\n      multiPoint:\n        enabled:{enabled}\n"
    )
    (profile,) = spec.resolve(registry.available).profiles
    built = registry.build(profile)
    assert set(plugins) <= {plugin.name for plugin in built.plugins}


def _load(folder, target):
    module_name, _, class_name = target.partition(":")
    spec = importlib.util.spec_from_file_location(module_name, folder / f"{module_name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, class_name)


def test_every_example_folder_is_a_package_with_a_readme():
    for folder in (path for path in EXAMPLES.iterdir() if path.is_dir()):
        if not folder.name.startswith((".", "__")):  # caches of tools
            assert (folder / "pyproject.toml").is_file(), folder
            assert (folder / "README.md").is_file(), folder
