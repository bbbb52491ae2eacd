"""Selectors, affinities, spreading: how generated pods say where they want to be."""

from __future__ import annotations

from typing import Final

from hack.fidelity.words import APPS, HOSTNAME, NAMESPACES, REGION, TIERS, ZONE, Dice, Json

_NEAR_ANY: Final = {
    "topologyKey": HOSTNAME,
    "labelSelector": {"matchExpressions": [{"key": "version", "operator": "Exists"}]},
}
_TOPOLOGIES: Final = (ZONE, HOSTNAME, "rack", REGION, "nowhere")
# API servers refuse a key that is in both lists.
_OTHER_KEYS: Final = {
    "matchLabelKeys": ("version", "absent"),
    "mismatchLabelKeys": ("tier", "missing"),
}


def node_selector(dice: Dice) -> Json:
    """Make a plain map that some nodes match."""
    return dict(
        dice.some(
            (("disk", "ssd"), ("disk", "hdd"), (ZONE, "a"), (ZONE, "b"), ("rack", ""), ("x", "y")),
            0,
            2,
        )
    )


def node_affinity(dice: Dice, nodes: list[str]) -> Json:
    """Make required terms, preferred terms, or both."""
    made = only_named(dice, nodes) if dice.chance(0.1) else {}
    if not made and dice.chance(0.5):
        made["requiredDuringSchedulingIgnoredDuringExecution"] = _required(dice, nodes)
    if dice.chance(0.6):
        made["preferredDuringSchedulingIgnoredDuringExecution"] = _preferred(dice, nodes)
    return made


def _preferred(dice: Dice, nodes: list[str]) -> list[Json]:
    if dice.chance(0.5):
        return [
            {"weight": 10, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
            for key in ("disk", "cores", "rack")
        ]
    return [
        {
            "weight": dice.one((1, 10, 20, 100)),
            "preference": _node_term(dice, nodes, fields=0.1),
        }
        for _ in range(dice.number(0, 4))
    ]


def only_named(dice: Dice, nodes: list[str]) -> Json:
    """Make required terms that name nodes, so that no others are looked at."""
    terms = [_named_term(dice, nodes) for _ in range(dice.number(1, 3))]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _required(dice: Dice, nodes: list[str]) -> Json:
    if dice.chance(0.04):
        return {"nodeSelectorTerms": None}
    if dice.chance(0.13):
        # Names that exclude each other: nothing is left before any node is judged.
        return {"nodeSelectorTerms": [{"matchFields": [_name(dice, nodes), _name(dice, nodes)]}]}
    return {
        "nodeSelectorTerms": [_node_term(dice, nodes, fields=0.2) for _ in range(dice.number(1, 3))]
    }


def _named_term(dice: Dice, nodes: list[str]) -> Json:
    term: Json = {"matchFields": [_name(dice, nodes)]}
    if dice.chance(0.3):
        term["matchExpressions"] = [_node_requirement(dice)]
    return term


def _name(dice: Dice, nodes: list[str]) -> Json:
    known = dice.one(nodes) if dice.chance(0.9) else "no-such-node"
    values = [known, dice.one(nodes)] if dice.chance(0.1) else [known]
    return {"key": "metadata.name", "operator": "In", "values": values}


def _node_term(dice: Dice, nodes: list[str], fields: float) -> Json:
    if dice.chance(0.05):
        return {}
    term: Json = {"matchExpressions": [_node_requirement(dice) for _ in range(dice.number(1, 2))]}
    if dice.chance(fields):
        operator = dice.one(("In", "NotIn"))
        term["matchFields"] = [
            {"key": "metadata.name", "operator": operator, "values": [dice.one(nodes)]}
        ]
    return term


def _node_requirement(dice: Dice) -> Json:
    operator = dice.one(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in {"Gt", "Lt"}:
        value = dice.one(("4", "8", "064", "0", "16", "1", "-1"))
        return {"key": dice.one(("cores", "disk")), "operator": operator, "values": [value]}
    key, values = dice.one(
        (
            ("disk", ["ssd", "hdd", "nvme"]),
            (ZONE, ["a", "b", "c", "d"]),
            ("rack", ["", "r1", "r2"]),
            ("cores", ["4", "8"]),
            ("absent", ["x"]),
        )
    )
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": dice.some(values, 1, 2)}


def label_selector(dice: Dice) -> Json | None:
    """Make a selector over pods: none, everything, labels, expressions."""
    if dice.chance(0.04):
        return None
    if dice.chance(0.05):
        return {}
    made: Json = {}
    if dice.chance(0.75):
        made["matchLabels"] = {"app": dice.one(APPS)}
    if dice.chance(0.35):
        made["matchExpressions"] = [_pod_requirement(dice) for _ in range(dice.number(1, 2))]
    return made or {"matchLabels": {"tier": dice.one(TIERS)}}


def _pod_requirement(dice: Dice) -> Json:
    key, values = dice.one((("app", APPS), ("tier", TIERS), ("version", ("1", "2"))))
    operator = dice.one(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": dice.some(values, 1, 2)}


def spread_constraints(dice: Dice, labels: dict[str, str]) -> list[Json]:
    """Make one to three constraints, hard, soft or mixed; mostly about pods with *labels*."""
    return [_constraint(dice, labels) for _ in range(dice.weighted({1: 5, 2: 3, 3: 1}))]


def _constraint(dice: Dice, labels: dict[str, str]) -> Json:
    made: Json = {
        "maxSkew": dice.one((1, 1, 1, 2, 3, 5)),
        "topologyKey": dice.weighted({ZONE: 5, HOSTNAME: 5, "rack": 1, REGION: 1, "nowhere": 0.2}),
        "whenUnsatisfiable": dice.one(("DoNotSchedule", "ScheduleAnyway")),
    }
    own = dict(dice.some(list(labels.items()), 1, 1))
    selector = {"matchLabels": own} if own and dice.chance(0.6) else label_selector(dice)
    if selector is not None:
        made["labelSelector"] = selector
        if dice.chance(0.2):
            made["matchLabelKeys"] = dice.some(("version", "tier", "absent"), 1, 2)
    if made["whenUnsatisfiable"] == "DoNotSchedule" and dice.chance(0.25):
        made["minDomains"] = dice.number(1, 6)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.chance(0.35):
            made[policy] = dice.one(("Honor", "Ignore"))
    return made


def pod_affinity(dice: Dice, *, mild: bool = False) -> Json:
    """Make terms towards and against other pods; *mild* ones shut out little."""
    made: Json = {}
    if not mild and dice.chance(0.5):
        wish = [{"weight": 10, "podAffinityTerm": _NEAR_ANY}]
        return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}}
    if dice.chance(0.15 if mild else 0.4):
        made["podAffinity"] = _terms(dice)
    if dice.chance(0.3 if mild else 0.5):
        made["podAntiAffinity"] = _terms(dice)
    return made


def _terms(dice: Dice) -> Json:
    made: Json = {}
    if dice.chance(0.6):
        made["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _term(dice) for _ in range(dice.weighted({1: 4, 2: 1}))
        ]
    if dice.chance(0.6):
        made["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.one((1, 5, 30, 100)), "podAffinityTerm": _term(dice)}
            for _ in range(dice.number(1, 2))
        ]
    return made


def _term(dice: Dice) -> Json:
    made: Json = {"topologyKey": dice.one(_TOPOLOGIES[:4] if dice.chance(0.95) else _TOPOLOGIES)}
    selector = label_selector(dice)
    if selector is not None:
        made["labelSelector"] = selector
    if dice.chance(0.25):
        made["namespaces"] = dice.some(NAMESPACES, 1, 2)
    if dice.chance(0.2):
        made["namespaceSelector"] = dice.one(
            (
                {},
                {"matchLabels": {"team": "a"}},
                {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
            )
        )
    if selector is not None:
        for keys in ("matchLabelKeys", "mismatchLabelKeys"):
            if dice.chance(0.08):
                made[keys] = [dice.one(_OTHER_KEYS[keys])]
    return made
