"""Build the section on a set's texts: counts, lengths, parts of speech, topics, similarity by subtype."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.audit.set_statistics import (
    ALL,
    BOX,
    LENGTH,
    NOUN,
    ROWS,
    SHARES,
    SIDES,
    SPEECH,
    SUPERCATEGORY,
    TOPIC,
    compute_set_statistics,
)
from caramel.audit.similarity.lexical import TEXT_PAIRS
from caramel.report.audit_figures import plot_quantile_boxes
from caramel.report.blocks import MISSING, Block, Cell, FigureBlock, TableBlock, format_count, format_percent
from caramel.report.inputs import StageSkipped
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS

STATISTICS_LEAD = (
    "Counts, lengths, parts of speech and topics of the texts, all of which are in statistics.csv by subtype."
)
NOTE = "P1: caption; P2: paraphrase; N: negative."
PANELS = 12  # subtypes with a panel of their own in the figure
LEAST = 0.005  # smallest share of the texts for which a topic is shown


def compute_text_statistics(data: Path) -> pd.DataFrame:
    """Return ``set_statistics`` of the instances; without instances, of the refined negatives."""
    columns = ["instance_id", "image_id", "subtype", "caption", "caption2", "negative_caption"]
    instances = read_table(INSTANCES, data / "assemble/instances.parquet", columns)
    if len(instances):
        return compute_set_statistics(instances.rename(columns={"instance_id": "pair_id"}))
    refined = read_table(
        NEGATIVES,
        data / "refine/negatives.parquet",
        ["negative_id", "pair_id", "subtype", "negative_caption"],
    )
    pairs = read_table(PAIRS, data / "refine/pairs.parquet", ["pair_id", "image_id", "caption"])
    second = read_table(PARAPHRASES, data / "refine/paraphrases.parquet", ["pair_id", "caption2"])
    whole = refined.merge(pairs, on="pair_id").merge(second, "left", "pair_id")
    return compute_set_statistics(whole.assign(pair_id=whole["negative_id"]))


def build_statistics_blocks(statistics: pd.DataFrame) -> list[Block]:
    """Return the tables of ``set_statistics``.

    Raises:
        StageSkipped: there are no texts.
    """
    if statistics["text"].eq("").all():
        raise StageSkipped("there are no texts")
    figures = statistics.set_index(["subtype", "text", "about", "name"])["value"].sort_index()
    subtypes = list(dict.fromkeys(statistics["subtype"]))
    sides = [name for name in SIDES.values() if name in set(statistics["text"])]
    blocks: list[Block] = [_build_counts_table(figures, subtypes, sides)]
    for about, title in (
        (SPEECH, "Parts of speech, per cent of the words"),
        (TOPIC, "Topics, per cent of the texts"),
        (SUPERCATEGORY, "Super-categories of COCO's things and stuff, per cent of the texts"),
    ):
        if about in set(statistics["about"]):
            blocks.append(_build_shares_table(figures, about, title, sides))
    nouns = [
        [Cell(subtype), *(Cell(_format_nouns(statistics, subtype, side)) for side in sides)]
        for subtype in subtypes
    ]
    blocks.append(
        TableBlock("Most frequent nouns", ("Subtype", *sides), nouns, labels=1 + len(sides), folded=True)
    )
    blocks += _build_similarity_blocks(statistics, figures, subtypes)
    return blocks


def _build_counts_table(figures: pd.Series, subtypes: list[str], sides: list[str]) -> TableBlock:
    """Return rows, images, and texts with their lengths, by subtype."""
    rows = []
    for subtype in subtypes:
        cells = [Cell(format_count(figures[subtype, "", ROWS, name])) for name in ("rows", "images")]
        for side in sides:
            has_texts = (subtype, side, ROWS, "texts") in figures.index
            if not has_texts:
                cells += [Cell(MISSING), Cell(MISSING)]
                continue
            low, median, high = (figures[subtype, side, LENGTH, name] for name in SHARES)
            cells.append(Cell(format_count(figures[subtype, side, ROWS, "texts"])))
            cells.append(Cell(f"{median:g}", f"{low:g} to {high:g}"))
        rows.append([Cell(subtype), *cells])
    head = (
        "Subtype",
        "rows",
        "images",
        *(h for side in sides for h in (f"{side}, different", f"{side}, words")),
    )
    return TableBlock(
        "Counts and lengths",
        head,
        rows,
        note=f"{NOTE} Words: median; small: quartiles.{_format_sample_note(figures)}",
    )


def _format_sample_note(figures: pd.Series) -> str:
    """Return a note on the sample size if only some rows were used."""
    whole, some = (figures[ALL, "", ROWS, name] for name in ("rows", "looked at"))
    return (
        ""
        if some == whole
        else f" Everything except the counts is from a sample of {format_count(some)} rows."
    )


def _build_shares_table(figures: pd.Series, about: str, title: str, sides: list[str]) -> TableBlock:
    """Return the shares of all subtypes together, the largest first."""
    columns = {side: figures[ALL, side, about] for side in sides}
    first = next(iter(columns.values()))
    names = list(first.sort_values(ascending=False, kind="stable").index)
    rows = [
        [Cell(str(name)), *(Cell(format_percent(float(shares[name]))) for shares in columns.values())]
        for name in names
        if max(shares[name] for shares in columns.values()) >= LEAST
    ]
    return TableBlock(title, ("", *sides), rows)


def _format_nouns(statistics: pd.DataFrame, subtype: str, side: str) -> str:
    nouns = statistics[
        (statistics["subtype"] == subtype) & (statistics["text"] == side) & (statistics["about"] == NOUN)
    ]
    return ", ".join(
        f"{name} {format_percent(value, 0)}"
        for name, value in zip(nouns["name"], nouns["value"], strict=True)
    )


def _build_similarity_blocks(
    statistics: pd.DataFrame, figures: pd.Series, subtypes: list[str]
) -> list[Block]:
    """Return box plots and quartiles of the similarity of two texts by subtype, as SLS if a parser was given."""
    measure = "sls" if "sls" in set(statistics["about"]) else "lexical"
    title = "SLS" if measure == "sls" else "Lexical similarity over words, the first factor of SLS"
    pairs = [pair for pair in TEXT_PAIRS if pair in set(statistics["text"])]
    boxes = {
        subtype: {
            pair: [float(figures[subtype, pair, measure, name]) for name in BOX]
            for pair in pairs
            if (subtype, pair, measure, "median") in figures.index
        }
        for subtype in subtypes
    }
    rows = [
        [Cell(subtype), *(_build_quartiles_cell(of[pair]) if pair in of else Cell(MISSING) for pair in pairs)]
        for subtype, of in boxes.items()
    ]
    drawn = boxes if len(boxes) <= PANELS else {ALL: boxes[ALL]}
    caption = f"{title}, by subtype: median, quartiles, and 90 % between the whiskers. {NOTE}"
    return [
        FigureBlock("statistics", plot_quantile_boxes(drawn), caption, "Box plots of similarity by subtype."),
        TableBlock(f"{title}: median and quartiles", ("Subtype", *pairs), rows),
    ]


def _build_quartiles_cell(box: list[float]) -> Cell:
    _, low, median, high, _ = box
    return Cell(f"{median:.2f}", f"{low:.2f} to {high:.2f}")
