"""YAML or JSON text becomes plain values, and every duplicate key is named."""

import yaml

from scheduler.config.problems import Problems, child

_SPOKEN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "null"))


def plain(text: str, problems: Problems) -> object:
    """Return what *text* says, in dictionaries, lists and scalars."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _Reading(loader, problems).read(node, "", ())
    except yaml.MarkedYAMLError as mistake:
        problems.add("", f"is no YAML: {_one_line(mistake)}")
    except yaml.YAMLError as mistake:
        problems.add("", f"is no YAML: {' '.join(str(mistake).split())}")
    finally:
        loader.dispose()
    return None


def _one_line(mistake: yaml.MarkedYAMLError) -> str:
    mark = mistake.problem_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{where}{mistake.problem or mistake.context}"


class _Reading:
    """One pass over the tree of YAML nodes, which still knows what a dictionary would forget."""

    def __init__(self, loader: yaml.SafeLoader, problems: Problems) -> None:
        self._loader = loader
        self._problems = problems

    def read(self, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> object:
        """Return the value of *node* at *path*, which stands inside the nodes *above*."""
        if node in above:
            self._problems.add(path, "refers to itself; write the value out")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            inside = (*above, node)
            return [self.read(n, f"{path}[{i}]", inside) for i, n in enumerate(node.value)]
        # Dates and the like stay text, as a JSON document would have them.
        if node.tag in _SPOKEN_TAGS:
            return self._loader.construct_object(node)
        return node.value

    def _mapping(
        self, node: yaml.MappingNode, path: str, above: tuple[yaml.Node, ...]
    ) -> dict[str, object]:
        own = [str(key.value) for key, _ in node.value]
        for name in sorted({name for name in own if own.count(name) > 1}):
            self._problems.add(child(path, name), "is given twice; keep one of them")
        self._loader.flatten_mapping(node)  # carries out "<<"
        return {
            str(key.value): self.read(value, child(path, str(key.value)), above)
            for key, value in node.value
        }
