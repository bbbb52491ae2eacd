"""Reads YAML or JSON text into plain values, and reports every duplicate key.

Scalars mean what they mean to kube-scheduler: ``y`` and ``off`` are truth values, ``1e3`` is a
number, ``1:30`` and ``2026-01-01`` are text.

Source: ``go.yaml.in/yaml/v2/resolve.go``.
"""

import re
from typing import Final

import yaml

from scheduler.config.problems import Problems, child

_TRUE: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE: Final = frozenset(
    ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
)
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_NOT_FINITE: Final = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_WHOLE: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[bB](?P<b2>[01]+)|0[oO]?(?P<b8>[0-7]+)|0[xX](?P<b16>[0-9a-fA-F]+)"
    r"|(?P<b10>0|[1-9][0-9]{0,4000}))",
    re.ASCII,
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_SCALAR_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "null")
)
_UNTAGGED: Final = "!untagged"
_VALUES_MAXIMUM: Final = 1_000_000


def plain(text: str, problems: Problems) -> object:
    """Parse *text* into dictionaries, lists and scalars."""
    if text.lstrip().startswith("{"):
        # JSON may be indented by tabs, YAML may not; JSON strings cannot contain a tab.
        text = text.replace("\t", " ")
    loader = _Loader(text)
    try:
        node = loader.get_node() if loader.check_node() else None
        _reject_second_document(loader, problems)
        return None if node is None else _Conversion(loader, problems).read(node, "", ())
    except yaml.MarkedYAMLError as mistake:
        problems.add("", f"is no YAML: {_one_line(mistake)}")
    except yaml.YAMLError as mistake:
        problems.add("", f"is no YAML: {' '.join(str(mistake).split())}")
    except RecursionError:
        problems.add("", "is nested too deeply")
    finally:
        loader.dispose()
    return None


class _Loader(yaml.SafeLoader):
    """Reads the structure only: a scalar without a tag stays text until `_scalar` reads it.

    PyYAML and Go interpret YAML 1.1 differently: to PyYAML, ``1e3`` would be text.
    """

    DEFAULT_SCALAR_TAG = _UNTAGGED  # type: ignore[misc]  # the way of PyYAML
    yaml_implicit_resolvers = {"<": [("tag:yaml.org,2002:merge", re.compile("<<"))]}


def _reject_second_document(loader: _Loader, problems: Problems) -> None:
    """Report a second document, unless it is empty, as templates often produce."""
    while loader.check_node() and (node := loader.get_node()) is not None:
        if not (isinstance(node, yaml.ScalarNode) and node.value in _NULL):
            line = node.start_mark.line + 1
            problems.add("", f"is followed by another one in line {line}; keep one of them")
            return


def _one_line(mistake: yaml.MarkedYAMLError) -> str:
    mark = mistake.problem_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{where}{mistake.problem or mistake.context}"


def _scalar(text: str) -> object:
    """Return the value of a scalar without quotes."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    figures = text.replace("_", "") if text[0] in "+-0123456789" else text
    if found := _WHOLE.fullmatch(figures):
        base = next(int(name[1:]) for name in ("b2", "b8", "b16", "b10") if found[name])
        return int(found["sign"] + found[f"b{base}"], base)
    return float(figures) if _FLOAT.fullmatch(figures) else text


class _Conversion:
    """Converts YAML nodes into plain values.

    It reads the nodes because PyYAML's own conversion silently drops duplicate keys.
    """

    def __init__(self, loader: _Loader, problems: Problems) -> None:
        self._loader = loader
        self._problems = problems
        self._values = 0

    def read(self, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> object:
        """Return the value of *node* at *path*, which stands inside the nodes *above*."""
        self._values += 1
        if self._values > _VALUES_MAXIMUM:
            raise yaml.YAMLError("more than a million values, once its aliases are written out")
        if node in above:
            self._problems.add(path, "refers to itself; write the value out")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            inside = (*above, node)
            return [self.read(n, f"{path}[{i}]", inside) for i, n in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        plain_scalar = node.tag in _SCALAR_TAGS or (node.tag == _UNTAGGED and node.style is None)
        return _scalar(node.value) if plain_scalar else node.value

    def _mapping(
        self, node: yaml.MappingNode, path: str, above: tuple[yaml.Node, ...]
    ) -> dict[str, object]:
        if not all(isinstance(key, yaml.ScalarNode) for key, _ in node.value):
            self._problems.add(path, "has a field whose name is no text")
            return {}
        own = [str(key.value) for key, _ in node.value]
        for name in sorted({name for name in own if own.count(name) > 1}):
            self._problems.add(child(path, name), "is given twice; keep one of them")
        self._loader.flatten_mapping(node)  # carries out "<<"
        return {
            str(key.value): self.read(value, child(path, str(key.value)), above)
            for key, value in node.value
        }
