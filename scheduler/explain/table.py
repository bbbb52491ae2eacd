"""The explanation as a table, for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.explain.document import ExplanationDocument


def table(said: ExplanationDocument, limit: int = 0) -> str:
    """Return *said*, a document of scheduler.explain.document, as text.

    Args:
        said: The document.
        limit: How many feasible and how many rejected nodes are shown; 0 shows all.
    """
    sections = (
        _head(said),
        _chosen(said, limit),
        _rejected(said, limit),
        _preemption(said, limit),
        _notes(said),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _head(said: ExplanationDocument) -> Iterator[str]:
    pod = said["pod"]
    yield f"Pod       {pod['namespace']}/{pod['name']}, priority {pod['priority']}"
    yield f"Profile   {said['profile']}"
    yield f"Nodes     {said['nodes']}, feasible: {len(said['feasible'])}"
    yield f"Decision  {said['decision']}: {said['message']}"
    if len(said["ties"]) > 1:
        yield f"Ties      {', '.join(said['ties'])} (the first was chosen)"
    if preemption := said["preemption"]:
        for victim in preemption["victims"]:
            yield f"Evicts    {victim}"
    for gate in said["gates"]:
        yield f"Gate      {gate['plugin']} keeps it out of the queue: {gate['reason']}"


def _chosen(said: ExplanationDocument, limit: int) -> Iterator[str]:
    """Yield the feasible nodes, the best first, with every plugin's score."""
    if not said["feasible"]:
        return
    plugins = list(dict.fromkeys(name for row in said["scores"].values() for name in row))
    weights = said["weights"]
    header = ["FEASIBLE", "TOTAL", *(f"{name} x{weights.get(name, 1)}" for name in plugins)]
    ranked = [*said["totals"], *(n for n in said["feasible"] if n not in said["totals"])]
    chosen = said["node"]
    if chosen in said["totals"]:  # among equals the chosen one stands first
        ranked.sort(key=lambda name: (-said["totals"].get(name, -1), name != chosen))
    shown = ranked[: limit or None]
    rows = [
        [
            f"{name} *" if name == chosen else name,
            str(said["totals"].get(name, "")),
            *(_cell(said["scores"].get(name, {}).get(plugin)) for plugin in plugins),
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


def _rejected(said: ExplanationDocument, limit: int) -> Iterator[str]:
    names = list(said["rejected"])
    if not names:
        return
    shown = names[: limit or None]
    rows = [["REJECTED", "PLUGIN", "EVICTION COULD HELP", "REASON"]]
    for name in shown:
        for index, each in enumerate(said["rejected"][name]):
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


def _preemption(said: ExplanationDocument, limit: int) -> Iterator[str]:
    """Yield the candidates for preemption, the chosen one first."""
    preemption = said["preemption"]
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


def _notes(said: ExplanationDocument) -> Iterator[str]:
    for plugin, problem in said["failed"].items():
        yield f"Failed    {plugin}: {problem}"
    for each in said["missing"]:
        readers = ", ".join(each["plugins"]) or "everyone"
        yield (
            f"Missing   no {each['kind']} in the snapshot; judged as if there were none: {readers}"
        )
    for each in said["completed"]:
        yield f"Completed {each}"
    for each in said["notes"]:
        yield f"Note      {each}"


def _columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
