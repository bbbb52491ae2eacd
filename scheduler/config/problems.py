"""Collecting everything that is wrong, so that one run shows it all."""

from scheduler.errors import ConfigurationError


def child(path: str, name: str) -> str:
    """Return the path of field *name* below *path*; the document itself has the path ''."""
    return f"{path}.{name}" if path else name


class Problems:
    """One line for each field that cannot be used, in the order found."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def add(self, path: str, text: str) -> None:
        """Note that the field at *path* cannot be used.

        A field that is wrong already is not blamed twice, nor is anything inside it: what follows
        from the first mistake would only hide it.
        """
        if not self.blames(path):
            self._lines[path] = f"{path or 'document'}: {text}"

    def blames(self, path: str) -> bool:
        """Tell whether *path* or a field around it is known to be wrong."""
        return any(
            path == known or path.startswith((f"{known}.", f"{known}[")) for known in self._lines
        )

    def raise_if_any(self) -> None:
        """Raise all that was found.

        Raises:
            ConfigurationError: If anything was.
        """
        if self._lines:
            raise ConfigurationError(*self._lines.values())
