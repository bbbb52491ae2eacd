"""The extension points a document can name."""

from enum import StrEnum


class Point(StrEnum):
    """An extension point; the value is the Python spelling, the order the document's."""

    PRE_ENQUEUE = "pre_enqueue"
    QUEUE_SORT = "queue_sort"
    PRE_FILTER = "pre_filter"
    FILTER = "filter"
    POST_FILTER = "post_filter"
    PRE_SCORE = "pre_score"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "pre_bind"
    BIND = "bind"
    POST_BIND = "post_bind"
    PLACEMENT_GENERATE = "placement_generate"
    PLACEMENT_SCORE = "placement_score"

    @property
    def label(self) -> str:
        """The name in metrics, as in ``PreFilter``."""
        return "".join(word.capitalize() for word in self.value.split("_"))

    @property
    def field(self) -> str:
        """The name in a document, as in ``preFilter``."""
        return self.label[0].lower() + self.label[1:]

    @property
    def plugin_type(self) -> str:
        """The name of its interface upstream, as in ``PreFilterPlugin``."""
        return f"{self.label}Plugin"
