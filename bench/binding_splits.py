"""Measure the error of binding splits on the world: `python bench/binding_splits.py PROJECT --spacy en_core_web_sm`.

PROJECT has a finished run of the default profile. The world's captions can be parsed exactly, so seen and unseen are
exact there: a compound is seen if a caption of the corpus states it, in whichever words. The proxy reads the same
captions with the parsers that `caramel crepe index` has: spaCy for the instances, and phrases or spaCy for the corpus.

Printed are, for corpora of several sizes drawn from the train captions, how many instances have which state exactly and
by the proxy, by side, and accuracy of the base by exact and by proxy state.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import pandas as pd

from caramel.crepe.binding_splits import (
    COMPOUND_LENGTHS,
    NONE,
    SEEN,
    STATES,
    UNSEEN,
    compute_binding_splits,
    list_caption_pairs,
    parse_pairs,
)
from caramel.crepe.corpus_index import build_index
from caramel.evaluation.benchmark_source import locate_benchmark, read_task
from caramel.interfaces.scene_graph import Compound
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import read_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import INVERSE
from caramel.utils.arrays import Bools
from caramel.utils.stats import wilson_interval


def list_exact_compounds(caption: str) -> frozenset[Compound]:
    """Return the attributes with their nouns and the relations that a caption states, in one form."""
    reading = parse_caption(caption)
    assert reading is not None, caption
    mentions = reading.whole.mentions
    compounds: set[Compound] = {(w, m.noun) for m in mentions for w in (m.size, m.colour) if w}
    for relation in reading.whole.relations:
        a, b = mentions[relation.subject].noun, mentions[relation.object].noun
        canonical = relation.predicate in ("left", "above")
        compounds.add((a, relation.predicate, b) if canonical else (b, INVERSE[relation.predicate], a))
    return frozenset(compounds)


def name_exact_state(own: frozenset[Compound], seen: frozenset[Compound]) -> str:
    """Return the state of a side, given what it says and the other does not."""
    if not own:
        return NONE
    return SEEN if own <= seen else UNSEEN


@click.command(help=__doc__)
@click.argument("project", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--spacy", required=True, help="spaCy model of the instances' captions.")
@click.option("--spacy-corpus", is_flag=True, help="Parse the corpus with spaCy, too, and not by phrases.")
@click.option("--sizes", default="300,1500,12000", show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(project: Path, spacy: str, spacy_corpus: bool, sizes: str, seed: int) -> None:
    """Print the confusion of states, and accuracy by state."""
    data = project / "data"
    scores = read_table(SIMILARITIES, data / "evaluate" / "similarities.parquet")
    scores = scores.query("model == 'base' and benchmark == 'instances'").set_index("instance_id")
    pairs = list_caption_pairs(read_task(locate_benchmark("instances", data / "assemble", None)), "instances")
    pairs = [pair for pair in pairs if pair.instance_id in scores.index]
    graphs = parse_pairs(pairs, f"spacy:{spacy}")
    atoms = frozenset(atom for graph in graphs.values() for atom in graph.list_atoms())
    captions = (
        read_table(PAIRS, data / "scenes" / "pairs.parquet").query("split == 'train'")["caption"].tolist()
    )
    order = np.random.default_rng(seed).permutation(len(captions)).tolist()
    hits = (
        (scores["s_c0_i0"] > scores["s_c1_i0"]).reindex([pair.instance_id for pair in pairs]).to_numpy(bool)
    )
    stated = [[list_exact_compounds(text) for text in (pair.positive, pair.negative)] for pair in pairs]
    for size in (int(text) for text in sizes.split(",")):
        corpus = [captions[number] for number in order[:size]]
        seen = frozenset[Compound]().union(*map(list_exact_compounds, corpus))
        parser = f"spacy:{spacy}" if spacy_corpus else "phrases"
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            (folder / "corpus.txt").write_text("\n".join(corpus), encoding="utf-8")
            build_index(folder / "corpus.txt", atoms, column="caption", folder=folder, parser=parser)
            click.echo(f"\nCorpus of {len(corpus):,} captions, by {parser}; {len(pairs):,} instances")
            for name in ("attributes", "relations"):
                proxy = compute_binding_splits(pairs, graphs, folder, compounds=name)
                exact = name_exact_states(stated, seen, COMPOUND_LENGTHS[name])
                for side in ("positive", "negative"):
                    print_confusion(f"{name}, {side}", exact[side], proxy[side])
                print_accuracy(f"{name}, exact", exact, hits)
                print_accuracy(f"{name}, proxy", proxy, hits)


def name_exact_states(
    stated: Sequence[Sequence[frozenset[Compound]]], seen: frozenset[Compound], lengths: tuple[int, ...]
) -> pd.DataFrame:
    """Return the exact states of both sides by the compounds of so many words."""
    rows = []
    for sides in stated:
        positive, negative = (frozenset(c for c in side if len(c) in lengths) for side in sides)
        rows.append([name_exact_state(side, seen) for side in (positive - negative, negative - positive)])
    return pd.DataFrame(rows, columns=["positive", "negative"])


def print_confusion(side: str, exact: pd.Series[str], proxy: pd.Series[str]) -> None:
    """Print the number of instances by exact state (down) and state of the proxy (across), and both error rates."""
    counts = {state: [int(((exact == state) & (proxy == name)).sum()) for name in STATES] for state in STATES}
    for state, row in counts.items():
        listed = "  ".join(f"{name} {count:5}" for name, count in zip(STATES, row, strict=True))
        click.echo(f"  {side} exactly {state:6}  {listed}")
    (seen, missed, unread), (taken, unseen, unread_unseen), _ = counts.values()
    total = max(1, seen + missed + unread + taken + unseen + unread_unseen)
    click.echo(
        f"  {side}: wrong {100 * (missed + taken) / total:.1f} %, "
        f"not parsed {100 * (unread + unread_unseen) / total:.1f} %"
    )


def print_accuracy(name: str, states: pd.DataFrame, hits: Bools) -> None:
    """Print accuracy of the base by the states of both sides."""
    for positive, negative in ((p, n) for p in (SEEN, UNSEEN) for n in (SEEN, UNSEEN)):
        chosen = ((states["positive"] == positive) & (states["negative"] == negative)).to_numpy()
        if chosen.any():
            share = hits[chosen].mean()
            low, high = wilson_interval(float(share), int(chosen.sum()))
            click.echo(
                f"  accuracy, {name}: positive {positive:6} negative {negative:6}  {100 * share:.1f} "
                f"[{100 * low:.1f}, {100 * high:.1f}]  n {chosen.sum()}"
            )


if __name__ == "__main__":
    main()
