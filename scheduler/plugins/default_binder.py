"""Binds pods through the binding subresource of the API server.

Source: ``plugins/defaultbinder/default_binder.go``.
"""

from typing import Final


class DefaultBinder:
    """Marks a profile whose pods the scheduler binds itself, with one POST that names the UID.

    The UID keeps a binding from reaching a new pod of the same name. The plugin decides nothing.
    """

    name = "DefaultBinder"
    bind: Final = True
