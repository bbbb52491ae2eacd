"""An index of selectors: finds those that may match given labels without trying all of them.

Users write as many selectors as they like. Compared one by one, those of one tenant would be paid
for by the pods of all others. A selector is therefore kept under a namespace and one label, or one
label key, that everything it matches has; only what is kept under the given namespace and labels is
compared. Selectors without such a label (``NotIn``, ``DoesNotExist``, empty ones) are compared with
all labels of their namespaces.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from scheduler.model.selectors import EXISTS, GT, IN, LT, Selector

T = TypeVar("T", bound=Hashable)

_LabelKey = tuple[str, str] | str | None
"""A label, or the key of one, that a match has; None where it need not have any."""

_NEED_A_KEY: Final = frozenset((EXISTS, GT, LT))
_ANYWHERE: Final = (None,)
_NAMESPACES_MAXIMUM: Final = 4096
"""Items that name more are kept under none: to write them 70,000 times takes longer than to compare
the few items of a megabyte that do."""


class MatchIndex(Generic[T]):
    """Items, each with the namespaces and the selector of what it matches."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: dict[str | None, dict[_LabelKey, dict[T, None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: T, namespaces: Collection[str] | None, selector: Selector) -> None:
        """Add *item*, which matches *selector* in *namespaces*; None for any namespace."""
        keys = _label_keys(selector)
        for namespace in _scopes(namespaces):
            by_label = self._items.setdefault(namespace, {})
            for key in keys:
                by_label.setdefault(key, {})[item] = None

    def remove(self, item: T, namespaces: Collection[str] | None, selector: Selector) -> None:
        """Remove *item*, which was added with the same *namespaces* and *selector*, if it is there.

        An item that was added with several selectors may be gone with the first of them.
        """
        keys = _label_keys(selector)
        for namespace in _scopes(namespaces):
            by_label = self._items.get(namespace, {})
            for key in keys:
                items = by_label.get(key, {})
                items.pop(item, None)
                if not items:
                    by_label.pop(key, None)
            if not by_label:
                self._items.pop(namespace, None)

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Yield what may match *labels* in *namespace*; each item once for each selector."""
        for scope in (namespace, None):
            by_label = self._items.get(scope)
            if by_label is None:
                continue
            yield from by_label.get(None, ())
            for label in labels.items():
                yield from by_label.get(label, ())
                yield from by_label.get(label[0], ())


def _scopes(namespaces: Collection[str] | None) -> Collection[str | None]:
    """Return under which namespaces an item is kept; whether it matches is compared anyway."""
    if namespaces is None or len(namespaces) > _NAMESPACES_MAXIMUM:
        return _ANYWHERE
    return namespaces


def _label_keys(selector: Selector) -> Collection[_LabelKey]:
    """Return under which labels *selector* is kept: all labels that it matches have one of them."""
    if selector.requirements is None:
        return ()
    wanted = [each for each in selector.requirements if each.operator == IN]
    if wanted:
        # One label is enough; that with the fewest values needs the fewest keys.
        fewest = wanted[0] if len(wanted) == 1 else min(wanted, key=lambda each: len(each.values))
        return [(fewest.key, value) for value in fewest.values]
    for each in selector.requirements:
        if each.operator in _NEED_A_KEY:
            return (each.key,)
    return (None,)
