"""Check the names in the params before anything runs: backends, scorers, models and benchmarks.

Every stage does this before it starts, so that a wrong name that only the last stage needs already stops the
first one. `caramel doctor` does the same check.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from caramel.config.schema import Config
from caramel.errors import BackendError, CaramelError, DataError, format_items
from caramel.interfaces.connections import AUTO, AUTO_NEEDS_SERVER, MaxConnections
from caramel.io.files import list_parquet_files
from caramel.plugins import Plugin
from caramel.registry import (
    BASES,
    BENCHMARKS,
    BLIND,
    FAMILIES,
    GENERATORS,
    GRAPH_PARSERS,
    JUDGES,
    LANGUAGE_MODELS,
    METHODS,
    SCORERS,
    SOURCES,
    TEXT_JUDGES,
    THESAURI,
    WRITERS,
    Registry,
)
from caramel.utils.packages import NO_SPACY_MODEL, is_package_or_folder

PEOPLE = "people"  # backend of what people decided
_LABELLED = re.compile(r"[^=:]+=")  # a name in front of a spec of a model
_CHAT = re.compile(r"([^=]*=)?chat:")
# Benchmarks that stage ``evaluate`` adds itself.
BUILT_IN = ("instances", "instances_source", "held_out_retrieval", "world_classes", "zero_shot")
_MADE = re.compile(r"(^|[:=])(\./)?data/")  # a folder that a stage creates


def check_names(config: Config) -> None:
    """Raise a BackendError if the params name anything that does not exist; the message lists everything."""
    _raise_problems(config, iter_unmet_names(config))


def check_language_model(config: Config) -> None:
    """Raise a BackendError with all problems if a language model for captions cannot be used."""
    _raise_problems(config, _iter_model_problems(config))


def _raise_problems(config: Config, lacking: Iterator[str]) -> None:
    problems = list(lacking)
    if problems:
        raise BackendError(
            f"The params have names that cannot be used:\n{format_items(problems, 20)}\nFix them with "
            f"`caramel config use {config.profile} --set KEY=VALUE`, or in the profile."
        )


def iter_unmet_names(config: Config) -> Iterator[str]:
    """Yield one line for each name in the params that cannot be used, with its key and the reason."""
    images, evaluate, select = config.filter_images, config.evaluate, config.select_negatives
    for key, registry, name in (
        ("scenes.source", SOURCES, config.scenes.source),
        ("negatives.backend", WRITERS, config.negatives.backend),
        ("negatives.paraphrases", WRITERS, config.negatives.paraphrases),
        ("train_generator.backend", GENERATORS, config.train_generator.backend),
        ("pretrain.backend", BASES, config.pretrain.backend),
    ):
        if name is not None:
            yield from _iter_unknown(key, registry, name)
    for key, judge in (
        ("filter_images.judge", images.judge),
        ("filter_images.ambiguity", images.ambiguity),
        ("filter_images.second_judge", images.second_judge),
        ("synthesize.grid_judge", config.synthesize.grid_judge),
    ):
        if judge is not None:
            yield from _iter_missing(key, JUDGES, judge)
    for key, stage in (("train_generator", config.train_generator), ("pretrain", config.pretrain)):
        if stage.backend == "pretrained" and not stage.pretrained:
            yield f"{key}.pretrained is not set, but {key}.backend is 'pretrained'"
    yield from _iter_model_problems(config)
    yield from _iter_spacy_problems(config)
    yield from _iter_crepe_problems(config)
    yield from _iter_conflicts(config)
    yield from _iter_people_conflicts(config)
    for key, scorers in (
        ("scores.scorers", config.scores.scorers),
        ("refine.scorers", config.refine.scorers),
        ("select_negatives.scorers", select.scorers if select else ()),
    ):
        for spec in scorers:
            yield from _iter_missing(key, SCORERS, spec)
    if select and select.similarity is not None:
        yield from _iter_missing("select_negatives.similarity", FAMILIES, select.similarity)
    if tuned := config.finetune_sugarcrepe_pp:
        for spec in tuned.models:
            yield from _iter_missing("finetune_sugarcrepe_pp.models", FAMILIES, spec)
    for spec in evaluate.models:
        yield from _iter_missing("evaluate.models", FAMILIES, spec)
    for name in evaluate.benchmarks:
        yield from _iter_unknown("evaluate.benchmarks", BENCHMARKS, name)
        if name in BUILT_IN:
            why = "evaluate.zero_shot names its folder" if name == "zero_shot" else "it is always evaluated"
            yield f"evaluate.benchmarks names {name!r}, but {why}: leave it out here"
    if evaluate.benchmarks and evaluate.data is None:
        yield "evaluate.data is not set, but evaluate.benchmarks needs it: it is the folder of the benchmarks' files"
    folders = [("evaluate.data", evaluate.data), ("evaluate.images", evaluate.images)]
    folders = [("evaluate.zero_shot", evaluate.zero_shot), *(folders if evaluate.benchmarks else [])]
    if tuned:
        folders += [
            ("finetune_sugarcrepe_pp.data", tuned.data),
            ("finetune_sugarcrepe_pp.images", tuned.images),
        ]
    for key, folder in folders:
        if folder is not None and not (is_there(folder) and Path(folder).is_dir()):
            yield f"{key} = {folder!r}: no such folder"


def _iter_model_problems(config: Config) -> Iterator[str]:
    """Yield the problems of a language model that writes captions."""
    section, key = config.negatives, "negatives.language_model"
    if "language_model" not in (section.backend, section.paraphrases):
        return
    model = section.language_model
    if model.target is None:
        yield f"{key}.target is not set, but negatives needs a language model: chat:MODEL@URL or local:FOLDER"
    known = False  # whether replies are stored; then no model needs to be available
    try:
        known = is_there(model.replies) and bool(list_parquet_files(Path(model.replies)))
    except DataError as error:
        yield f"{key}.replies: {error}"
    for name, spec in (("target", model.target), ("paraphraser", model.paraphraser)):
        if spec is not None:
            if not known:
                yield from _iter_missing(f"{key}.{name}", LANGUAGE_MODELS, spec)
                yield from _iter_auto_problems(f"{key}.{name}", spec, model.max_connections)
            if model.response_schema and not spec.startswith("chat:") and find_spec("llguidance") is None:
                yield f"{key}.response_schema = true with {name} = {spec!r} needs llguidance. Run `pip install llguidance`"
            if model.workers and not spec.startswith("local:"):
                yield f"{key}.workers = {model.workers} needs a model in a folder, local:FOLDER, but {name} is {spec!r}"
    if model.name is not None and model.paraphraser not in (None, model.target):
        yield f"{key}.name is one name for two models, target and paraphraser: leave one of them out"
    if model.max_cost is not None and not (model.price_per_mtok_in or model.price_per_mtok_out):
        yield f"{key}.max_cost = {model.max_cost:g} needs price_per_mtok_in or price_per_mtok_out: at a price of 0 it is never reached"
    if not is_there(model.replies):
        yield f"{key}.replies = {model.replies!r}: no such file or folder"
    if not is_there(model.prompts):
        yield f"{key}.prompts = {model.prompts!r}: no such folder"
    if model.propose == "choose" and (section.spacy_model is None or model.compose != "edit"):
        yield f"{key}.propose = 'choose' needs negatives.spacy_model, which finds what can be changed, and {key}.compose = 'edit'"
    if model.wordnet is not None and not is_there(model.wordnet):
        yield f"{key}.wordnet = {model.wordnet!r}: no such folder"
    for name, folder in (("entailment", model.entailment), ("grammar", model.grammar)):
        if folder is not None and not known:
            for missing in TEXT_JUDGES[name].missing(folder):
                yield f"{key}.{name} = {folder!r}: {missing}"


def _iter_spacy_problems(config: Config) -> Iterator[str]:
    """Yield why the spaCy model of captions is of no use; needed also where all responses are stored."""
    section = config.negatives
    name = section.spacy_model
    if name is None:
        return
    used = {section.backend, section.paraphrases or section.backend}
    edits = "language_model" in used and section.language_model.compose == "edit"
    if not edits and "lexicon" not in used:
        yield (
            f"negatives.spacy_model = {name!r} is used by the backend lexicon and by language_model with compose: edit. "
            f"Set it to null."
        )
    elif not is_package_or_folder(name):
        yield f"negatives.spacy_model = {name!r}: {NO_SPACY_MODEL}"


def _iter_crepe_problems(config: Config) -> Iterator[str]:
    """Yield the unknown names in the section of CREPE's graph; its files are checked when that graph runs."""
    section = config.crepe
    for key, registry, spec in (
        ("crepe.parser", GRAPH_PARSERS, section.parser),
        ("crepe.words", THESAURI, section.words),
        ("crepe.writer", LANGUAGE_MODELS, section.writer),
    ):
        if spec is not None:
            yield from _iter_unknown(key, registry, spec.partition(":")[0])
    if section.writer is not None:
        yield from _iter_auto_problems("crepe.writer", section.writer, section.max_connections)


def _iter_auto_problems(key: str, spec: str, connections: MaxConnections) -> Iterator[str]:
    """Yield why a model cannot find the number of connections itself."""
    if connections == AUTO and spec.startswith("local:"):
        yield f"{key} = {spec!r} cannot be used with {AUTO_NEEDS_SERVER}"


def _iter_conflicts(config: Config) -> Iterator[str]:
    """Yield the contradictions between keys."""
    if config.synthesize.method == "edit":
        for key, value, needed in (
            ("scenes.source", config.scenes.source, "world"),
            ("train_generator.backend", config.train_generator.backend, "pixart"),
            ("synthesize.image_size", config.synthesize.image_size, 48),  # pixels of the world's images
        ):
            if value != needed:
                yield f"synthesize.method = 'edit' needs {key} = {needed!r}, not {value!r}; 'draw' does not"
        if 24 % config.train_generator.patch_size:  # pixels of the world's cells
            yield (
                f"synthesize.method = 'edit' needs a train_generator.patch_size that divides 24, the side of a cell, but "
                f"{config.train_generator.patch_size} does not"
            )
    elif config.synthesize.method == "draw":
        if config.assemble.positives == "drawn":
            yield "assemble.positives = 'drawn' needs synthesize.method = 'edit', or 'inpaint' or 'instruct'; 'source' does not"
    else:
        yield from _iter_edit_problems(config)

    if config.assemble.training == "all" and config.assemble.positives == "drawn":
        yield "assemble.training = 'all' needs assemble.positives = 'source': not every pair has a drawn image"
    of_negatives = [variant for variant in config.finetune.variants if METHODS[variant].negatives]
    if config.assemble.training == "all" and config.finetune.rows == "pairs" and of_negatives:
        yield (
            f"assemble.training = 'all' needs finetune.rows = 'negatives' for {of_negatives[0]!r}: not every pair has a "
            f"negative"
        )
    if (
        config.scenes.source != "world"
        and config.assemble.training != "none"
        and sum(config.scenes.val_test_frac) > 1 - 1e-9
    ):
        yield (
            f"scenes.val_test_frac = {list(config.scenes.val_test_frac)} leaves no image to train on: take shares whose sum "
            f"is below 1, or set assemble.training = 'none'"
        )
    if config.filter_images.judge == "none" and config.filter_images.faithfulness_threshold is None:
        yield "filter_images.judge = 'none' has nothing to calibrate: set filter_images.faithfulness_threshold to 0.0"
    grid = config.synthesize.grid
    if (config.synthesize.grid_judge or config.filter_images.judge) == "none" and len(grid.guidance) * len(
        grid.steps
    ) > 1:
        yield (
            "synthesize.grid has several settings, and judge 'none' compares none of them: give one value each of guidance "
            "and steps, or set synthesize.grid_judge"
        )


def _iter_edit_problems(config: Config) -> Iterator[str]:
    """Yield why source images cannot be edited by a diffusers pipeline."""
    section, generator = config.synthesize, config.train_generator
    if generator.backend != "pretrained":
        yield (
            f"synthesize.method = {section.method!r} needs train_generator.backend = 'pretrained' with such a pipeline, not "
            f"{generator.backend!r}"
        )
    if section.method == "inpaint" and not is_there(section.masks):
        yield f"synthesize.masks = {section.masks!r}: no such folder, but method 'inpaint' needs its masks"
    if section.method == "instruct" and section.prompt_suffix:
        yield "synthesize.prompt_suffix is not used by method 'instruct': set it to ''"


def _iter_people_conflicts(config: Config) -> Iterator[str]:
    """Yield what people cannot judge or write."""
    images = config.filter_images
    if images.judge == PEOPLE:
        if images.faithfulness_threshold is None:
            yield "filter_images.judge = 'people' needs a filter_images.faithfulness_threshold, such as 0.5: their fits are 0 or 1"
        if config.synthesize.grid_judge in (None, PEOPLE):
            yield "filter_images.judge = 'people' needs synthesize.grid_judge, a model that compares the generator's settings"
    deciding = images.ambiguity or images.judge
    if images.ambiguity_test == "images" and deciding in (PEOPLE, "none"):
        yield (
            f"filter_images.ambiguity_test = 'images' needs a model or the exact reading as judge, not {deciding!r}: set it "
            f"to 'captions'"
        )
    for key, name in (
        ("filter_images.second_judge", images.second_judge),
        ("synthesize.grid_judge", config.synthesize.grid_judge if images.judge != PEOPLE else None),
        ("negatives.backend", config.negatives.backend),
    ):
        if name == PEOPLE:
            yield f"{key} = 'people' is not supported: people decide on drawn images and on paraphrases"


def is_there(name: str) -> bool:
    """Return whether a file or folder of that name exists, readable or not; False for an invalid name."""
    try:
        return Path(name).exists()
    except PermissionError:  # reported when it is read
        return True
    except OSError:
        return False


def list_named_plugins(config: Config) -> list[Plugin]:
    """Return the backends of other packages that the params name."""
    images, evaluate, select = config.filter_images, config.evaluate, config.select_negatives
    tuned = config.finetune_sugarcrepe_pp
    judges = (images.judge, images.ambiguity, images.second_judge, config.synthesize.grid_judge)
    specs = [*evaluate.models, *config.crepe.models, *(tuned.models if tuned else ())]
    models = [spec.partition("=")[2] if _LABELLED.match(spec) else spec for spec in specs]
    models += [select.similarity] if select and select.similarity else []
    scorers = [*config.scores.scorers, *config.refine.scorers, *(select.scorers if select else ())]
    scorers += [spec.removeprefix(f"{BLIND}:") for spec in models if spec.startswith(f"{BLIND}:")]
    return [
        *METHODS.select_plugins([*config.finetune.variants, *([tuned.method] if tuned else [])]),
        *JUDGES.select_plugins(spec.partition(":")[0] for spec in judges if spec),
        *SCORERS.select_plugins(spec.partition(":")[0] for spec in scorers),
        *FAMILIES.select_plugins(spec.partition(":")[0] for spec in models),
        *BENCHMARKS.select_plugins(evaluate.benchmarks),
    ]


def _iter_unknown(key: str, registry: Registry[object], name: str) -> Iterator[str]:
    try:
        registry.get_target(name)
    except BackendError as error:
        yield f"{key}: {error}"


def _iter_missing(key: str, registry: Registry[object], spec: str) -> Iterator[str]:
    """Yield the reasons why the model of a spec cannot be loaded, without loading it.

    A server need not be running yet, and outputs of stages need not exist yet.
    """
    if (registry is FAMILIES and _CHAT.match(spec)) or _MADE.search(spec):
        return
    try:
        for missing in registry.list_missing(spec):
            yield f"{key} = {spec!r}: {missing}"
    except (CaramelError, OSError) as error:  # OSError: the text is too long for a file name
        yield f"{key} = {spec!r:.200}: {error}"
