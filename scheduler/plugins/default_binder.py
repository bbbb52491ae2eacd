"""Pods are bound through the API server's binding subresource.

Source: ``plugins/defaultbinder/default_binder.go``.
"""

from typing import Final


class DefaultBinder:
    """Marks a profile whose pods the loop binds with one POST, by UID; it decides nothing."""

    name = "DefaultBinder"
    bind: Final = True
