"""Collects all problems of a document, so that one run reports them together."""

from scheduler.errors import ConfigurationError


def child(path: str, name: str) -> str:
    """Return the path of field *name* below *path*; the document itself has the path ''."""
    return f"{path}.{name}" if path else name


class Problems:
    """One line for each field that cannot be used, in the order of discovery."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def add(self, path: str, text: str) -> None:
        """Add that the field at *path* cannot be used.

        Only the first problem of a field is kept, and none of the fields inside it: they follow
        from that problem, and would only hide it.
        """
        if not self.blames(path):
            self._lines[path] = f"{path or 'document'}: {text}"

    def blames(self, path: str) -> bool:
        """Tell whether *path* or a field around it has a problem."""
        return any(
            path == known or path.startswith((f"{known}.", f"{known}[")) for known in self._lines
        )

    def raise_if_any(self) -> None:
        """Raise all problems as one exception.

        Raises:
            ConfigurationError: If there is any.
        """
        if self._lines:
            raise ConfigurationError(*self._lines.values())
