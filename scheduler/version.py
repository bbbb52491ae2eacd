"""The version of py-scheduler, in one place."""

__version__ = "0.1.0"
