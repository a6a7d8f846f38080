"""Build CREPE's sets from files: the corpus index, systematicity and productivity (Ma et al. 2023).

The commands ``caramel crepe`` and the stages of ``pipelines/crepe/dvc.yaml`` call these functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from caramel.crepe.corpus_index import NAME, PHRASES, build_index, read_seen_atoms
from caramel.crepe.crops import CropRules
from caramel.crepe.example_files import EntailmentScorer, PlausibilityScorer, open_rejects
from caramel.crepe.llm_captions import CaptionWriter, create_caption_writer, write_template_captions
from caramel.crepe.productivity import COMPLEXITIES, sample_drafts, write_productivity_files
from caramel.crepe.spelling import Corrector, create_spelling_corrector
from caramel.crepe.systematicity import RegionExample, iter_region_examples, write_systematicity_files
from caramel.crepe.visual_genome_graphs import FILES, OnReject, iter_descriptions, iter_image_graphs
from caramel.errors import ConfigError, DataError
from caramel.interfaces.connections import MaxConnections
from caramel.interfaces.scene_graph import Atom, Thesaurus
from caramel.registry import LANGUAGE_MODELS, TEXT_JUDGES, THESAURI

REJECTS = "rejects.csv"
NO_CHECK = "none"  # instead of a folder of a model of natural language inference


@dataclass(frozen=True)
class SetSettings:
    """What both sets need.

    Attributes:
        graphs: folder of Visual Genome's JSON files.
        out: folder to write to.
        raw: folder for the pairs without hard negatives (D_RAW); None: they are not written.
        words: spec of a thesaurus, ``wordnet:FOLDER`` or ``lists``.
        sensible: folder of a masked language model that ranks negatives; None: random ones.
        min_area: smallest area of a crop in pixels.
        seed: seed of all draws.
    """

    graphs: Path
    out: Path
    raw: Path | None
    words: str
    sensible: Path | None
    min_area: int
    seed: int


class SetCounts(NamedTuple):
    """How many examples each file of a set has, and how many were left out for each reason."""

    examples: dict[str, int]
    rejects: Mapping[str, int]


def iter_regions(
    graphs: Path, reject: OnReject, rules: CropRules | None = None, correct: Corrector = str
) -> Iterator[RegionExample]:
    """Yield the regions of the scene graphs with a compound; ``reject`` receives the others."""
    images = iter_image_graphs(graphs, reject, regions=True, correct=correct)
    return iter_region_examples(images, reject, rules or CropRules(area=0))


def build_graph_index(
    corpus: Path,
    graphs: Path,
    out: Path,
    *,
    column: str,
    parser: str = PHRASES,
    correct_spelling: bool = False,
) -> tuple[Path, int]:
    """Write the index of a corpus for the words of the regions; return its path and the number of these words.

    Args:
        corpus: file of captions.
        graphs: folder of Visual Genome's JSON files.
        out: folder to write to.
        column: name of the captions' column, or its number.
        parser: spec of the parser of the captions.
        correct_spelling: whether to correct the descriptions of the regions; those of the set must be read alike.

    Raises:
        ConfigError: no region of the graphs has a compound.
        BackendError, DataError: as ``corpus_index.build_index``.
    """
    check_graph_files(graphs)
    regions = iter_regions(graphs, lambda reject: None, correct=load_corrector(graphs, correct_spelling))
    atoms = {atom for region in regions for atom in region.captioned.graph.list_atoms()}
    if not atoms:
        raise ConfigError(f"The scene graphs in {str(graphs)!r} have no region with a compound.")
    return build_index(corpus, atoms, column=column, folder=out, parser=parser), len(atoms)


def write_systematicity_set(
    settings: SetSettings, *, index: Path, name: str, correct_spelling: bool = False
) -> SetCounts:
    """Write the files of the systematicity set and ``rejects.csv``.

    Args:
        settings: of both sets.
        index: folder of the corpus index.
        name: name of the corpus in the names of files.
        correct_spelling: whether to correct the descriptions of the regions.

    Raises:
        DataError: a file of the graphs is missing, no region is left, or the index is that of other graphs.
    """
    check_corpus_name(name)
    check_graph_files(settings.graphs)
    thesaurus = load_thesaurus(settings.words, lambda: read_seen_atoms(index / NAME))
    correct = load_corrector(settings.graphs, correct_spelling)
    rules = CropRules(area=settings.min_area)
    passes = iter(range(2))
    with open_rejects(settings.out / REJECTS) as (reject, reasons):
        counts = write_systematicity_files(
            lambda: iter_regions(
                settings.graphs, reject if next(passes) else lambda row: None, rules, correct
            ),
            thesaurus,
            index / NAME,
            settings.out,
            name=name,
            seed=settings.seed,
            reject=reject,
            plausible=load_plausibility_scorer(settings.sensible),
            raw=settings.raw,
        )
    return SetCounts(counts, Counter(reasons))


def write_productivity_set(
    settings: SetSettings,
    *,
    per_complexity: int,
    walks: int,
    write_captions: CaptionWriter = write_template_captions,
    entailed: EntailmentScorer | None = None,
) -> SetCounts:
    """Write the files of the productivity set and ``rejects.csv``.

    Args:
        settings: of both sets.
        per_complexity: largest number of captions of each complexity.
        walks: random walks through an image's graph, for each complexity.
        write_captions: writes the captions.
        entailed: finds swaps that follow from their caption; None: no check.

    Raises:
        DataError: no caption is left.
    """
    thesaurus = load_thesaurus(settings.words, lambda: list_graph_atoms(settings.graphs))
    with open_rejects(settings.out / REJECTS) as (reject, reasons):
        drafted = sample_drafts(
            iter_image_graphs(settings.graphs, reject, regions=False),
            complexities=COMPLEXITIES,
            tries=walks,
            most=per_complexity,
            rules=CropRules(area=settings.min_area),
            seed=settings.seed,
            reject=reject,
            repeat_names=True,
        )
        counts = write_productivity_files(
            drafted,
            thesaurus,
            settings.out,
            seed=settings.seed,
            reject=reject,
            plausible=load_plausibility_scorer(settings.sensible),
            write_captions=write_captions,
            entailed=entailed,
            raw=settings.raw,
        )
    named = {f"{negative_type}, {n} atoms": count for (negative_type, n), count in counts.items()}
    return SetCounts(named, Counter(reasons))


def check_graph_files(graphs: Path) -> None:
    """Raise a DataError if a folder lacks one of Visual Genome's files."""
    if missing := [name for name in FILES if not (graphs / name).is_file()]:
        raise DataError(
            f"The folder of scene graphs {str(graphs)!r} lacks {', '.join(missing)}. Unpack Visual Genome's files (1.2, "
            f"visualgenome.org) there, or name another folder."
        )


def load_corrector(graphs: Path, correct_spelling: bool) -> Corrector:
    """Return the function that corrects the spelling of the scene graphs' texts; ``str`` to leave it."""
    return create_spelling_corrector(iter_descriptions(graphs)) if correct_spelling else str


def check_corpus_name(name: str) -> None:
    """Raise a ConfigError if a corpus's name is no part of a file name."""
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(
            f"--name {name!r} must consist of letters, digits, - and _: it is part of file names."
        )


def load_thesaurus(spec: str, read_atoms: Callable[[], frozenset[Atom]]) -> Thesaurus:
    """Return the thesaurus of a spec; ``read_atoms`` returns the words of the corpus."""
    name, _, target = spec.partition(":")
    return THESAURI[name](target, read_atoms)


def list_graph_atoms(graphs: Path) -> frozenset[Atom]:
    """Return the words of the scene graphs."""
    images = iter_image_graphs(graphs, lambda row: None, regions=False)
    return frozenset(atom for image in images for atom in image.graph.list_atoms())


def load_plausibility_scorer(folder: Path | None) -> PlausibilityScorer | None:
    """Return a function that scores the plausibility of texts with a masked language model; None without a folder."""
    if folder is None:
        return None
    from caramel.blind.text.text_models import open_model

    model = open_model(model_type="masked_lm", target=str(folder))
    return lambda texts: [float(value) for value in model.values(texts)]


def check_entailment(writer: str | None, entailment: str | None) -> None:
    """Raise a ConfigError if a language model writes captions, and nothing says how their swaps are checked.

    The swaps of sentences are checked as published. Those of the template are exact, and need no model.
    """
    if writer is not None and entailment is None:
        raise ConfigError(
            f"The language model {writer!r} writes captions, so their swaps must be checked: give --entailment (or "
            f"crepe.entailment) the folder of a natural language inference model, such as roberta-large-mnli, or "
            f"{NO_CHECK!r} for no check."
        )
    if entailment not in (None, NO_CHECK) and not Path(entailment).is_dir():
        raise ConfigError(
            f"The natural language inference model {entailment!r} is no folder. Give the folder of one, or {NO_CHECK!r}."
        )


def load_entailment_scorer(folder: str | None) -> EntailmentScorer | None:
    """Return a function that tells which texts follow from their caption; None without a folder or with ``NO_CHECK``."""
    if folder is None or folder == NO_CHECK:
        return None
    return TEXT_JUDGES["entailment"].load(folder).predict_probabilities


def load_caption_writer(
    spec: str | None, store: Path, *, seed: int, max_connections: MaxConnections, max_requests: int | None
) -> CaptionWriter:
    """Return the function that writes captions: with a language model, or the template if there is no spec."""
    if spec is None:
        return write_template_captions
    family, _, target = spec.partition(":")
    return create_caption_writer(
        LANGUAGE_MODELS[family].load(target, max_connections=max_connections, workers=0),
        store,
        seed=seed,
        max_connections=max_connections,
        max_requests=max_requests,
    )
