"""The explanation as a table, for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.explain.document import ExplanationDocument


def table(document: ExplanationDocument, limit: int = 0) -> str:
    """Return *document*, a document of scheduler.explain.document, as text.

    Args:
        document: The document.
        limit: How many feasible and how many rejected nodes are shown; 0 shows all.
    """
    sections = (
        _head(document),
        _chosen(document, limit),
        _rejected(document, limit),
        _preemption(document, limit),
        _notes(document),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _head(document: ExplanationDocument) -> Iterator[str]:
    pod = document["pod"]
    yield f"Pod       {pod['namespace']}/{pod['name']}, priority {pod['priority']}"
    yield f"Profile   {document['profile']}"
    yield f"Nodes     {document['nodes']}, feasible: {len(document['feasible'])}"
    yield f"Decision  {document['decision']}: {document['message']}"
    if len(document["ties"]) > 1:
        yield f"Ties      {', '.join(document['ties'])} (the first was chosen)"
    if preemption := document["preemption"]:
        for victim in preemption["victims"]:
            yield f"Evicts    {victim}"
    for gate in document["gates"]:
        yield f"Gate      {gate['plugin']} keeps it out of the queue: {gate['reason']}"


def _chosen(document: ExplanationDocument, limit: int) -> Iterator[str]:
    """Yield the feasible nodes, the best first, with every plugin's score."""
    if not document["feasible"]:
        return
    plugins = list(dict.fromkeys(name for row in document["scores"].values() for name in row))
    weights = document["weights"]
    header = ["FEASIBLE", "TOTAL", *(f"{name} x{weights.get(name, 1)}" for name in plugins)]
    ranked = [
        *document["totals"],
        *(n for n in document["feasible"] if n not in document["totals"]),
    ]
    chosen = document["node"]
    if chosen in document["totals"]:  # among equals the chosen one stands first
        ranked.sort(key=lambda name: (-document["totals"].get(name, -1), name != chosen))
    shown = ranked[: limit or None]
    rows = [
        [
            f"{name} *" if name == chosen else name,
            str(document["totals"].get(name, "")),
            *(_cell(document["scores"].get(name, {}).get(plugin)) for plugin in plugins),
        ]
        for name in shown
    ]
    yield from _columns([header, *rows])
    yield from _rest(len(ranked) - len(shown))
    if plugins:
        yield "(each score: raw > from 0 to 100 > weighted; * is the chosen node)"


def _cell(score: Mapping[str, int] | None) -> str:
    if score is None:
        return "-"
    return f"{score['raw']} > {score['normalized']} > {score['weighted']}"


def _rejected(document: ExplanationDocument, limit: int) -> Iterator[str]:
    names = list(document["rejected"])
    if not names:
        return
    shown = names[: limit or None]
    rows = [["REJECTED", "PLUGIN", "EVICTION COULD HELP", "REASON"]]
    for name in shown:
        for index, each in enumerate(document["rejected"][name]):
            rows.append(
                [
                    "" if index else name,
                    each["plugin"] or "(closed)",
                    "yes" if each["resolvable"] else "no",
                    each["reason"],
                ]
            )
    yield from _columns(rows)
    yield from _rest(len(names) - len(shown))


def _preemption(document: ExplanationDocument, limit: int) -> Iterator[str]:
    """Yield the candidates for preemption, the chosen one first."""
    preemption = document["preemption"]
    if not preemption or not preemption["candidates"]:
        return
    ranked = sorted(preemption["candidates"], key=lambda each: each["node"] != preemption["node"])
    shown = ranked[: limit or None]
    rows = [["PREEMPTION ON", "BUDGETS VIOLATED", "WOULD EVICT"]]
    for each in shown:
        mark = " *" if each["node"] == preemption["node"] else ""
        violated = str(each["pdb_violations"])
        rows.append([each["node"] + mark, violated, ", ".join(each["victims"])])
    yield from _columns(rows)
    yield from _rest(len(ranked) - len(shown))


def _rest(count: int) -> Iterator[str]:
    if count:
        yield f"… and {count} more"


def _notes(document: ExplanationDocument) -> Iterator[str]:
    for plugin, problem in document["failed"].items():
        yield f"Failed    {plugin}: {problem}"
    for each in document["missing"]:
        readers = ", ".join(each["plugins"]) or "everyone"
        yield (
            f"Missing   no {each['kind']} in the snapshot; judged as if there were none: {readers}"
        )
    for each in document["completed"]:
        yield f"Completed {each}"
    for each in document["notes"]:
        yield f"Note      {each}"


def _columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
