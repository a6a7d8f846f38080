"""caramel's Python interface: score a model in memory, audit and refine captions, read pinned data sets.

``import caramel`` re-exports these functions and loads this module when one is first used. The functions
import what they need when they are called.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from caramel.errors import ConfigError
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    import pandas as pd

    from caramel.audit.audit import Audit
    from caramel.evaluation.score_model import LoadedBenchmark, Scores
    from caramel.refine.refining import RefinedDataset
    from caramel.utils.acceptance import Acceptance

RESAMPLES = (100, 100_000)  # fewer give no interval, more add nothing
MAX_SEED = 2**32 - 100  # generators take seeds of 32 bits, and a caller may also use the next few seeds


def load_benchmark(
    name: str,
    data: str | Path,
    *,
    images: str | Path | None = None,
    limit: int | None = None,
    missing: Literal["fail", "skip"] = "fail",
    **options: Any,
) -> LoadedBenchmark:
    """Return a benchmark for ``score``. Its captions are read, and all its images are checked.

    Args:
        name: name, as in ``caramel benchmarks``.
        data: folder of the benchmark, or a folder that holds a folder of that name.
        images: folder of the images; None: the folder of the benchmark.
        limit: use only the first instances; None: all.
        missing: "fail": a missing image is an error; "skip": instances that need a missing image get no
            score.
        options: options of the benchmark's reader, such as ``split="val"`` for ``instances``.

    Raises:
        BackendError: no benchmark has that name.
        ConfigError: an option or the limit is invalid.
        DataError: a file is missing or broken, or images are; the message lists them.

    Example:
        >>> sugarcrepe = caramel.load_benchmark("sugarcrepe", "benchmarks/", images="coco/val2017")
    """
    from caramel.evaluation.score_model import load_checked_benchmark

    _check_number("limit", limit, 1, None)
    if missing not in ("fail", "skip"):
        raise ConfigError(f"missing={missing!r} must be 'fail' or 'skip'.")
    return load_checked_benchmark(
        name, Path(data), None if images is None else Path(images), limit, options, missing
    )


def score(
    model: Any,
    benchmark: LoadedBenchmark,
    *,
    tokenizer: Any = None,
    preprocess: Any = None,
    processor: Any = None,
    name: str = "model",
    batch_size: int | None = None,
    precision: Literal["fp32", "bf16", "fp16", "auto"] = "fp32",
    n_bootstrap: int = 1000,
    seed: int = 0,
    out: str | Path | None = None,
) -> Scores:
    """Return the scores of a model in memory on a benchmark. They equal those of ``caramel eval``.

    Nothing is written unless ``out`` is given, and no run is tracked. The model stays on its device.
    Afterwards it is
    unchanged: the mode of each module, its gradients, and the states of all random generators. Each distinct
    image and text is encoded once.

    Args:
        model: a model of open_clip, with ``tokenizer`` and ``preprocess``; a dual encoder of transformers,
            with ``processor``; or a pair of functions (encode_images, encode_texts). Each function maps a
            list of RGB images (Pillow), or of texts, to vectors (n, d) of any length, as a tensor or array.
            Functions must set their model's mode themselves.
        benchmark: result of ``load_benchmark``.
        tokenizer: maps a list of texts to tokens, as ``open_clip.get_tokenizer`` returns it.
        preprocess: the transform for evaluation, the last of ``open_clip.create_model_and_transforms``.
        processor: result of ``AutoProcessor.from_pretrained``. With ``backend="pil"`` its pixels equal those
            of ``caramel eval``. The torchvision backend differs in the last bit of many pixels.
        name: the model's name in the tables.
        batch_size: items per forward pass; None: the largest useful size that fits.
        precision: precision of the forward passes.
        n_bootstrap: resamples of the intervals, from 100 to 100,000.
        seed: seed of the resamples.
        out: folder for similarities.parquet, metrics.parquet and metrics.csv, as written by ``caramel eval``.

    Returns:
        ``metrics`` (value, 95 % interval, n, ties by subset and metric), ``similarities`` (every score by
        instance), and ``overall``, metric -> value in [0, 1] over all instances.

    Raises:
        BackendError: the model is not one of these, or does not return vectors.
        ConfigError: a part of the model is missing or unusable, or an argument is out of range.

    Example:
        >>> model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32-quickgelu", "openai")
        >>> tokenizer = open_clip.get_tokenizer("ViT-B-32-quickgelu")
        >>> found = caramel.score(model, sugarcrepe, tokenizer=tokenizer, preprocess=preprocess)
        >>> found.overall
        {'accuracy': 0.76...}
    """
    from caramel.evaluation.adapters import use_eval_mode, wrap_model
    from caramel.evaluation.score_model import LoadedBenchmark, score_model

    if not isinstance(benchmark, LoadedBenchmark):
        raise ConfigError(
            f"benchmark={benchmark!r} is not loaded. Give caramel.load_benchmark(NAME, FOLDER)."
        )
    if not isinstance(name, str) or not name:
        raise ConfigError(f"name={name!r} must be a text that is not empty.")
    _check_number("batch_size", batch_size, 1, None)
    _check_number("n_bootstrap", n_bootstrap, *RESAMPLES)
    _check_number("seed", seed, 0, MAX_SEED)
    with use_eval_mode(model):
        live = wrap_model(
            model,
            tokenizer=tokenizer,
            preprocess=preprocess,
            processor=processor,
            precision=precision,
            name=name,
        )
        return score_model(
            live,
            benchmark,
            batch_size=batch_size,
            bootstrap=Bootstrap(n_bootstrap, seed),
            out=None if out is None else Path(out),
        )


def metrics(
    frame: pd.DataFrame, *, benchmark: str | None = None, n_bootstrap: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Return all metrics, with intervals, of per-instance results, as ``caramel metrics`` does.

    Args:
        frame: ``similarities`` of ``score``, or a row per instance with scores or true/false columns of other
            programs, named as in ``caramel metrics --help``.
        benchmark: benchmark of the frame; a table of similarities names its own.
        n_bootstrap: resamples of the intervals, from 100 to 100,000.
        seed: seed of the resamples.

    Returns:
        Table ``metrics``: fractions in [0, 1]. ``.attrs["notes"]`` lists what is missing in the frame.

    Raises:
        DataError: a column is missing or has invalid values, an instance is a duplicate, or there are no
            rows.
        ConfigError: the frame names no benchmark and none is given, or an argument is out of range.
        BackendError: no benchmark has that name.

    Example:
        >>> caramel.metrics(pd.read_csv("winoground_by_others.csv"), benchmark="winoground")
    """
    from caramel.evaluation.results.frames import compute_frame_metrics

    _check_number("n_bootstrap", n_bootstrap, *RESAMPLES)
    _check_number("seed", seed, 0, MAX_SEED)
    return compute_frame_metrics(frame, benchmark, bootstrap=Bootstrap(n_bootstrap, seed))


def compare(
    a: pd.DataFrame | Sequence[pd.DataFrame],
    b: pd.DataFrame | Sequence[pd.DataFrame],
    *,
    n_bootstrap: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare model a with model b on the same instances: paired, clustered by image, Holm-corrected.

    Args:
        a: ``similarities`` of ``score`` for one model; several frames are training seeds of one recipe.
        b: the same for the other model.
        n_bootstrap: resamples of the intervals, from 100 to 100,000.
        seed: seed of the resamples.

    Returns:
        A row per benchmark, subset and metric, with the columns of ``comparison.csv``. ``.attrs["notes"]``
        says where it is unknown whether both sides scored the same content.

    Raises:
        DataError: a frame is not a table of similarities or holds several models, or the two sides did not
            score the same instances.
        ConfigError: an argument is out of range.

    Example:
        >>> caramel.compare(tuned.similarities, base.similarities)[["metric", "difference", "p_holm"]]
    """
    from caramel.evaluation.results.frames import compare_frames

    _check_number("n_bootstrap", n_bootstrap, *RESAMPLES)
    _check_number("seed", seed, 0, MAX_SEED)
    return compare_frames(a, b, bootstrap=Bootstrap(n_bootstrap, seed))


def audit_captions(
    frame: pd.DataFrame,
    *,
    scorers: Sequence[str] = (),
    folds: int = 5,
    seed: int = 3,
    name: str = "data frame",
    images: str | Path | None = None,
    encoder: str | None = None,
    corpus: Sequence[str] | None = None,
    learn_from: Mapping[str, pd.DataFrame] | None = None,
    training: str | Path | None = None,
    training_column: str = "caption",
) -> Audit:
    """Audit captions and hard negatives with blind models, which see no image, as ``caramel audit`` does.

    Args:
        frame: ``caption`` and ``negative_caption``; optional ``caption2``, ``id``, ``image_id``, ``type``,
            ``subtype`` and others, as ``caramel audit`` reads them from a file.
        scorers: blind scorers; none: all that need no model.
        folds: number of folds of the cross-validation, at least 2.
        seed: seed of folds and draws.
        name: name of the data set.
        images: folder of the images, if rows have a negative image, to measure what the images give away.
        encoder: an available language-model encoder, which the default scorers then also probe and fine-tune.
        corpus: texts that n-gram models learn from, instead of the other folds.
        learn_from: name -> frame of further rows that attackers learn from, such as rows rejected by
            refinement.
        training: file of a training corpus's captions, in which the texts are searched.
        training_column: column of the captions in that file.

    Returns:
        The audit: ``best`` (micro, ci_low, ci_high in [0, 1] …), ``attacks`` on each task and from each
            source,
        ``defects``, ``giveaways`` and the rest. ``caramel.report.audit_text.format_audit`` formats it as text.

    Raises:
        DataError: a column is missing, a value is not text, an id is a duplicate, there are too few rows to
            attack, or the folder holds none of the images.
        BackendError: no scorer has that name.
        ConfigError: an argument is out of range.

    Example:
        >>> found = caramel.audit_captions(pd.read_csv("captions.csv"), scorers=["length", "probe"])
        >>> found.best["micro"]
        0.61...
    """
    from caramel.audit.dataset import audit_data_set
    from caramel.audit.files.inputs import read_frame
    from caramel.blind.scorer_specs import list_default_scorers
    from caramel.blind.text.text_tasks import Source

    _check_number("folds", folds, 2, None)
    _check_number("seed", seed, 0, MAX_SEED)
    audited = read_frame(frame, images=None if images is None else Path(images))
    for note in audited.notes:
        warnings.warn(note, stacklevel=2)
    return audit_data_set(
        audited,
        scorers=_check_names("scorers", scorers) or list_default_scorers(encoder),
        folds=folds,
        seed=seed,
        name=name,
        corpus=corpus,
        sources=[Source(other, read_frame(rows).rows) for other, rows in (learn_from or {}).items()],
        training=None if training is None else Path(training),
        training_column=training_column,
    )


def refine_captions(
    frame: pd.DataFrame,
    *,
    target: float | None = None,
    acceptance: Acceptance = "equivalence",
    rows: int | None = None,
    methods: Sequence[str] = (),
    scorers: Sequence[str] = (),
    attackers: Sequence[str] = (),
    cells: Sequence[float] = (),
    within: Literal["subtype", "all"] = "subtype",
    folds: int = 5,
    seed: int = 4,
) -> RefinedDataset:
    """Refine a data set until blind models can no longer tell right from wrong, as ``caramel refine`` does.

    Args:
        frame: as for ``audit_captions``.
        target: highest accuracy of the blind attacker, in [0.5, 1]; None: the lowest that can be reached.
        acceptance: ``equivalence``: the target must be shown to be reached, so the whole interval must be no
            higher; ``not_refuted``, for small sets: the measured accuracy must be no higher.
        rows: rows to keep, or one fewer; None: as many as possible.
        methods: length, adversarial, aflite, aflite+adversarial; none: all.
        scorers: blind scorers for refining and choosing; none: the command's defaults.
        attackers: further scorers that judge the result; none: the command's defaults.
        cells: sides of a grid cell, in (0, 1]; none: 1, 0.25, 0.1, 0.02.
        within: a grid per subtype, or one over all rows as published.
        folds: number of folds of the cross-validation, at least 2.
        seed: seed of folds and draws.

    Returns:
        ``rows``: the kept rows; ``rejects``: the others, with the reason; ``chosen``: method and strength;
            ``curve``:
        what each setting keeps; ``judged``: accuracy and interval before and after, by scorers that took no
        part in the refinement; ``verdicts``: their verdicts on the target (``state`` accepted, undecided or
        refused; rows ``needed``).

    Raises:
        DataError: as for ``audit_captions``, or no setting reaches the target.
        BackendError: no scorer has that name.
        ConfigError: an argument is out of range, or no scorer is left to judge.

    Example:
        >>> found = caramel.refine_captions(pd.read_csv("captions.csv"), target=0.55)
        >>> found.rows.to_csv("refined.csv")
    """
    from dataclasses import replace

    from caramel.audit.files.inputs import read_frame
    from caramel.refine import refining
    from caramel.refine.adversarial import Within
    from caramel.refine.tradeoff import METHODS
    from caramel.utils.acceptance import Acceptance as rules

    settings = refining.build_settings(
        scorers=_check_names("scorers", scorers),
        attackers=_check_names("attackers", attackers),
        target=target,
        acceptance=acceptance,
        rows=rows,
        methods=_check_names("methods", methods),
        cells=cells,
        within=within,
        folds=folds,
        seed=seed,
    )
    _check_choices("methods", methods, METHODS)
    _check_choices("within", [within], get_args(Within))
    _check_choices("acceptance", [acceptance], get_args(rules))
    _check_number("target", target, 0.5, 1)
    _check_number("rows", rows, 1, None)
    _check_number("folds", folds, 2, None)
    _check_number("seed", seed, 0, MAX_SEED)
    tried = refining.build_candidate_set(read_frame(frame).rows, settings, "the data frame")
    result = refining.take_best(tried, settings)
    return replace(result, judged=refining.evaluate_refinement(tried, result.rows, settings))


def read_pinned(version: str, table: str, *, root: str | Path = ".") -> pd.DataFrame:
    """Return a table of the data set version that a pin refers to, whatever is on disk now.

    Args:
        version: name of the pin.
        table: its path in the project, ``data/assemble/instances.parquet``, or the end of it, ``instances``.
        root: the project's folder, with ``pins/``.

    Raises:
        DataError: the pin or table does not exist, or its rows are neither on disk nor in DVC's cache.

    Example:
        >>> caramel.read_pinned("v1.0", "assemble/instances")
    """
    from caramel.release.pinned_tables import read_pinned as read

    return read(version, table, Path(root))


def get(
    source: str,
    paths: Sequence[str] = (),
    *,
    out: str | Path,
    split: Literal["train", "val", "test"] | None = None,
    form: Literal["pandas", "datasets"] = "pandas",
    credentials: Sequence[str] = (),
) -> dict[str, Any]:
    """Fetch a data set version into a folder, check it against its pin, and return its tables.

    This does what ``caramel get`` does, with the same errors. Files that are already in the folder are not
    fetched again.

    Args:
        source: ``SOURCE[@PIN]``: a git URL or a project's folder, and the name of a pin.
        paths: folders, files or the ends of the paths of tables; none: the whole version.
        out: folder for the files.
        split: only rows of this split, for tables that have one.
        form: ``pandas``: data frames; ``datasets``: data sets of Hugging Face's library, in which an index of
            images has the images in column ``image``.
        credentials: addresses of remotes that may receive your login, ``https://s3.example.org`` or
            ``s3://BUCKET``.

    Returns:
        Path of each table in the version, such as ``data/assemble/instances.parquet``, -> its rows.

    Raises:
        ConfigError: several pins exist and none is named, the folder is the source, or an argument is
            invalid.
        DataError: the repository, pin or path does not exist, an object is damaged or missing, or the folder
            has other files.
        ResourceError: a remote cannot be reached, or the disk is full.
        BackendError: ``datasets`` is not installed.

    Example:
        >>> tables = caramel.get("https://example.org/benchmark.git@v1.0", ["instances"], out="v1.0/")
    """
    from caramel.release.get import get_version as fetch
    from caramel.release.pinned_tables import build_dataset, load_frame

    _check_choices("split", [split] if split else [], ("train", "val", "test"))
    _check_choices("form", [form], ("pandas", "datasets"))
    named = _check_names("credentials", credentials)
    got = fetch(source, _check_names("paths", paths), out=Path(out), split=split, credentials=named)
    read = load_frame if form == "pandas" else build_dataset
    return {path: read(Path(out, path)) for path in got.tables}


def _check_number(name: str, value: object, low: float, high: float | None) -> None:
    """Raise a ConfigError if a value is not a number, is out of range, or is not whole where it must be."""
    if value is None and name not in ("folds", "seed", "n_bootstrap"):
        return
    types = (int, float) if isinstance(low, float) else (int,)
    if (
        isinstance(value, bool)
        or not isinstance(value, types)
        or not low <= value <= (float("inf") if high is None else high)
    ):
        noun = "number" if isinstance(low, float) else "whole number"
        upto = "" if high is None else f" to {high:,}"
        raise ConfigError(f"{name}={value!r} must be a {noun} from {low:,}{upto}.")


def _check_names(what: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return several names. A single text is refused."""
    if isinstance(names, str):
        raise ConfigError(f"{what}={names!r} must be a list of names: [{names!r}].")
    return tuple(names)


def _check_choices(what: str, given: Sequence[str], choices: Sequence[str]) -> None:
    """Raise a ConfigError if a value is not one of the choices."""
    if wrong := [value for value in given if value not in choices]:
        raise ConfigError(f"{what}={wrong[0]!r} is not one of the choices: {', '.join(choices)}.")
