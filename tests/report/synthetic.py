"""What all stages would have written: small, made up, and of the true form."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from stored_images import stored

from caramel.benchmarks.readers.instances import BENCHMARK, list_subsets
from caramel.blind.image.attack import ATTACKERS
from caramel.blind.image.joint import METRICS
from caramel.evaluation.bounds import compute_bounds
from caramel.evaluation.grid import HEADLINE
from caramel.evaluation.results.bound_columns import CELLS, NOUN, PIXELS, PROBE_COLUMNS, RELATION, WORD
from caramel.evaluation.results.comparison import compare_variants
from caramel.evaluation.results.forgetting import DISTANCE_MEASURES, RETAINED_COLUMNS
from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.evaluation.results.separability import count_separable
from caramel.evaluation.results.standardisation import standardise_compounds
from caramel.evaluation.results.summary import parse_variant, summarise_similarities, summarise_variants
from caramel.evaluation.synthetic_probe_data import PLANTED
from caramel.io.image_store import is_shard, rewrite_shard_paths
from caramel.report.sections.search_sections import COLUMNS as SEARCHED
from caramel.schemas.catalogue import TABLES
from caramel.schemas.columns import COMPOUNDS, SUBTYPES, TYPES
from caramel.schemas.contracts import TEXT
from caramel.schemas.evaluation import METRICS as METRICS_TABLE
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.sources.captions.error_rates import CHECK_COLUMNS, NOISE_COLUMNS
from caramel.sources.captions.failures import FAILURE_COLUMNS
from caramel.sources.captions.llm.validator_quality import VALIDATOR_COLUMNS
from caramel.sources.images.generation import NOT_DRAWN
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.grammar import PATTERNS, Reading, get_pattern_key, realise_caption
from caramel.sources.world.scenes import sample_meaning, sample_scene
from caramel.utils.resampling import Bootstrap

MODELS = {"base": 0.0, "infonce": 0.02, "trohn_text": 0.1, "trohn_img": 0.14}


def write_all(data: Path, *, per_subtype: int = 6, seeds: int = 2) -> None:
    """Write the outputs of every stage under ``data``."""
    rng = np.random.default_rng(0)
    pictures = _Pictures(rng)
    pairs, negatives = _captions(data, pictures, per_subtype)
    _noise(data / "negatives")
    _blind(data, rng)
    _gates(data)
    instances = _images(data, pictures, pairs, negatives)
    _attackers(data, rng)
    _models(data, rng, instances, seeds)


def plant(data: Path, text: str) -> None:
    """Put a text before whatever the stages take from data: captions, names, prompts, reasons, notes of gates."""
    for file in (path for path in data.rglob("*.parquet") if not is_shard(path)):
        rows = pd.read_parquet(file)
        name = "training" if file.parent.name == "training" else file.stem
        columns = TABLES[{"detectors": "metrics"}.get(name, name)].columns
        for name, column in columns.items():
            if (
                column.type == TEXT
                and column.choices is None
                and name not in ("metric", "benchmark", "scene", "shard")
            ):
                rows[name] = [
                    text + v if isinstance(v, str) and v not in ("base", "all", "macro") else v
                    for v in rows[name]
                ]
        rows.to_parquet(file)
    for file in data.glob("validate_*/summary.json"):
        suites = json.loads(file.read_text())
        for part in (part for one in suites.values() for part in one["findings"]):
            part.update(observed=text, notes=text, examples=[text])
        file.write_text(json.dumps(suites))
    for file in data.glob("evaluate/*.csv"):
        rows = pd.read_csv(file)
        names = [name for name in ("variant", "model", "a", "b") if name in rows]
        rows[names] = rows[names].map(lambda name: name if name == "base" else text + name)
        rows.to_csv(file, index=False)


def _noise(out: Path) -> None:
    """Write what a language model would have got wrong."""
    counts = (
        (40, 130, 30, 36, 4, 3, 9, 0, 21, 20),
        (20, 45, 15, 20, 2, 3, 0, 1, 14, 13),
        (60, 210, 45, 56, 6, 6, 9, 1, 35, 33),
    )
    named = zip(("add_att", "paraphrase", "all"), counts, strict=True)
    pd.DataFrame([(n, *row) for n, row in named], columns=list(NOISE_COLUMNS)).to_csv(
        out / "noise.csv", index=False
    )
    found = [
        ("negatives", "place", 36, 8, 0.75, 0.4, 0.25),
        ("paraphrases", "meaning", 18, 2, 1.0, 0.5, float("nan")),
    ]
    pd.DataFrame(found, columns=list(CHECK_COLUMNS)).to_csv(out / "checks.csv", index=False)
    shares = (20, 15, 0.75, 0.531, 0.888, 20, 18, 0.9, 0.699, 0.972, 0, 0.0001)
    pd.DataFrame([("negatives", *shares)], columns=list(VALIDATOR_COLUMNS)).to_csv(
        out / "validator.csv", index=False
    )
    failed = [("add_att", "unfinished", 2, 1), ("paraphrase", "hallucination", 3, 0)]
    pd.DataFrame(failed, columns=list(FAILURE_COLUMNS)).to_csv(out / "failures.csv", index=False)


def put(path: Path, content: Any) -> None:
    """Write JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


class _Pictures:
    """Draws random scenes of the world."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, image_id: str, split: str) -> tuple[dict[str, Any], str]:
        """Return an image, as ``stored`` takes it, and a true caption."""
        scene = sample_scene(self.rng, num_objects=int(self.rng.integers(1, 4)), typical_color_prob=0.5)
        meaning = sample_meaning(self.rng, scene.things)
        caption = realise_caption(
            Reading(meaning, int(self.rng.integers(len(PATTERNS[get_pattern_key(meaning)]))))
        )
        data = encode_png(draw_scene(scene, self.rng))
        row = {"image_id": image_id, "data": data, "width": 48, "height": 48, "source": "world"}
        return {**row, "split": split}, caption


def _captions(data: Path, pictures: _Pictures, per_subtype: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    images, pairs, negatives, paraphrases = [], [], [], []
    for n, subtype in enumerate(s for s in SUBTYPES for _ in range(per_subtype)):
        split = ("test", "test", "train", "val")[n % 4]
        image, caption = pictures.one(f"scene-{n:05d}", split)
        _, other = pictures.one("", split)
        images.append(image)
        name = f"p{n:05d}"
        common = {"split": split, "source": "world"}
        pairs.append(
            {"pair_id": name, "image_id": image["image_id"], "caption": caption, "scene": None} | common
        )
        paraphrases.append({"pair_id": name, "caption2": f"{caption} ", "generator": "world", "attempts": 1})
        row = {
            "negative_id": f"{name}:{subtype}",
            "pair_id": name,
            "subtype": subtype,
            "negative_caption": other,
            "compounds": COMPOUNDS[n // 4 % 2],
        }
        negatives.append({**row, "type": subtype[:-4], "generator": "world", "seed": 1, "attempt": 1})
    reject = {"id": "p00000:swap_att", "reason": "duplicate of the caption", "text": "A red car."}
    for stage in ("negatives", "refine"):
        _write(data, stage, "negatives", negatives)
        _write(data, stage, "paraphrases", paraphrases)
        _write(data, stage, "rejects", [{**reject, "stage": stage}])
    for stage in ("scenes", "refine"):
        _write(data, stage, "pairs", pairs)
    stored(data / "scenes/images.parquet", images)
    return pd.DataFrame(pairs), pd.DataFrame(negatives)


def _write(data: Path, stage: str, name: str, rows: list[dict[str, Any]]) -> None:
    table = TABLES[name]
    write_table(table, build_frame(table, rows), data / stage / f"{name}.parquet")


def _write_index(data: Path, stage: str, named: list[tuple[str, list[str]]]) -> None:
    """Write a table ``images`` of some images of other stages."""
    parts = []
    for other, names in named:
        rows = read_table(IMAGES, data / other / "images.parquet")
        parts.append(rewrite_shard_paths(rows[rows["image_id"].isin(names)], data / other, data / stage))
    write_table(IMAGES, pd.concat(parts), data / stage / "images.parquet")


def _blind(data: Path, rng: np.random.Generator) -> None:
    subsets = ("all", *TYPES, *SUBTYPES)
    for stage, lift in (("scores", 0.15), ("refine", 0.0)):
        found: dict[str, Any] = {}
        for scorer in ("length", "final_punctuation", "casing", "ngram", "probe"):
            found[scorer] = {}
            for subset in subsets:
                accuracy = float(np.clip(0.5 + lift + rng.normal(0, 0.04), 0, 1))
                bounds = {"ci_low": accuracy - 0.05, "ci_high": accuracy + 0.05}
                found[scorer][subset] = {"accuracy": accuracy, **bounds, "n": 100, "ties": 3}
        put(data / stage / "blind.json", found)
    low = {"casing": 0.45}  # of a scorer that does not find what was planted
    planted = {
        name: {"accuracy": 1.0, "ci_low": low.get(name, 0.97), "ci_high": 1.0, "n": 400, "ties": 0}
        for name in found
    }
    put(
        data / "scores/positive_control.json", {name: {"planted": figure} for name, figure in planted.items()}
    )


def _gates(data: Path) -> None:
    check = {
        "expectation": "expect_column_values_to_not_be_null",
        "columns": ["caption"],
        "severity": "critical",
        "success": True,
        "failing_rows": 0,
        "observed": None,
        "examples": [],
        "notes": "A pair is an image and a caption.",
    }
    broken = {
        **check,
        "expectation": "expect_no_image_in_two_splits",
        "success": False,
        "failing_rows": 3,
        "examples": ["image_id='scene-1', split='val'"],
    }
    suite = {"table": "pairs", "rows": 100, "findings": [check]}
    put(data / "validate_captions/summary.json", {"pairs": suite})
    put(data / "validate_benchmark/summary.json", {"instances": {**suite, "findings": [check, broken]}})


def _images(data: Path, pictures: _Pictures, pairs: pd.DataFrame, negatives: pd.DataFrame) -> pd.DataFrame:
    drawn, candidates, choices, kept, instances = [], [], [], [], []
    of_pair = pairs.set_index("pair_id")
    for n, negative in enumerate(negatives.to_dict("records")):
        pair = of_pair.loc[negative["pair_id"]]
        for candidate in range(4):
            image, _ = pictures.one(f"{negative['negative_id']}:{candidate}", pair["split"])
            drawn.append(image)
            name = {
                "negative_id": negative["negative_id"],
                "candidate": candidate,
                "image_id": image["image_id"],
            }
            candidates.append(
                {**name, "seed": n, "generator": "pixart", "prompt": negative["negative_caption"]}
            )
            is_chosen = candidate == n % 5
            verdict = {"faithful": float(is_chosen or candidate == 3), "ambiguous": candidate == 3}
            choices.append({**name, **verdict, "chosen_by": "world" if is_chosen else None})
            if is_chosen:
                kept.append(image["image_id"])
                names = {"image_id": pair["image_id"], "negative_image_id": image["image_id"]}
                row = {k: negative[k] for k in ("negative_caption", "type", "subtype")}
                row |= {"instance_id": negative["negative_id"], "caption": pair["caption"], "caption2": "P."}
                instances.append({**row, **names, "split": pair["split"]})
    stored(data / "synthesize/images.parquet", drawn)
    _write(data, "synthesize", "candidates", candidates)
    left_out = {"id": "p00002:add_obj", "stage": "synthesize", "reason": NOT_DRAWN, "text": "A blue car."}
    _write(data, "synthesize", "rejects", [left_out])
    _write(data, "filter_images", "choices", choices)
    _write_index(data, "filter_images", [("synthesize", kept)])
    text = {
        "id": "p00004:swap_att",
        "stage": "filter_images",
        "reason": "no faithful candidate",
        "text": None,
    }
    _write(data, "filter_images", "rejects", [text])
    _write(data, "assemble", "instances", instances)
    _write(data, "assemble", "rejects", [])
    _write_index(data, "assemble", [("scenes", pairs["image_id"].tolist()), ("filter_images", kept)])
    grid = [{"guidance": g, "steps": 6, "fit": s, "n": 96} for g, s in ((2.0, 0.31), (4.0, 0.42))]
    put(data / "synthesize/settings.json", {"chosen": {"guidance": 4.0, "steps": 6}, "grid": grid})
    by_subtype = {s: {"n": 100, "faithful": 0.3 + 0.07 * n} for n, s in enumerate(SUBTYPES)}
    calibration = {
        "threshold": 0.62,
        "images": 90,
        "precision": 0.83,
        "recall": 0.71,
        "balanced_accuracy": 0.78,
        "passed": 0.43,
        "precision_interval": [0.74, 0.89],
        "recall_interval": [0.61, 0.79],
        "passed_interval": [0.36, 0.5],
    }
    metrics = {
        "threshold": {"faithfulness_threshold": 0.62, "faithful_from": 0.62, "calibration": calibration},
        "candidates": {"drawn": 900, "n": 700, "faithful": 0.51, "by_subtype": by_subtype},
        "negatives": {"n": 175, "with_faithful": 0.69, "ambiguous": 0.11, "kept": 100},
        "second_judge": {
            "name": "clip",
            "precision": 0.71,
            "recall": 0.64,
            "agreement": 0.8,
            "n": 700,
            "accepted_from": 0.61,
            **{"passed": 0.5, "passed_of_unfaithful": 0.3},
            "calibration": {
                "threshold": 0.61,
                "images": 60,
                "precision": 0.7,
                "recall": 0.8,
                "balanced_accuracy": 0.75,
            },
        },
    }
    put(data / "filter_images/metrics.json", metrics)
    frame = build_frame(INSTANCES, instances)
    return frame[frame["split"] == "test"].reset_index(drop=True)


def _attackers(data: Path, rng: np.random.Generator) -> None:
    subsets = ("all", "without_add", *TYPES, *SUBTYPES)

    def figure(value: str, lift: float, subset: str) -> dict[str, Any]:
        if subset in ("only", "only_obj"):
            return {value: None, "ci_low": None, "ci_high": None, "n": 0, "unscored": 6}
        share = float(np.clip(0.5 + lift + rng.normal(0, 0.02), 0, 1))
        return {value: share, "ci_low": share - 0.05, "ci_high": share + 0.05, "n": 100, "unscored": 0}

    forms = {
        form: {
            "pictures": {a: {s: figure("accuracy", lift, s) for s in subsets} for a in ATTACKERS},
            "joint": {
                a: {m: {s: figure("value", lift, s) for s in subsets} for m in METRICS} for a in ATTACKERS
            },
        }
        for form, lift in (("instances", 0.0), ("instances_source", 0.4))
    }
    control = {"pictures": "accuracy", "joint": "value"}
    planted: dict[str, Any] = {"levels": 12}
    planted |= {kind: {a: figure(key, 0.4, "all") for a in ATTACKERS} for kind, key in control.items()}
    put(
        data / "image_scores/figures.json",
        {"folds": 4, "split": "test", "fewest": 20, "forms": forms, "planted": planted},
    )


def _models(data: Path, rng: np.random.Generator, instances: pd.DataFrame, seeds: int) -> None:
    columns = [c for c in SIMILARITIES.columns if c.startswith(("s_c", "t_p"))]
    hard = rng.normal(0, 0.2, size=(len(instances), len(columns)))
    parts, curves = [], []
    for variant, lift in MODELS.items():
        for seed in range(1 if variant == "base" else seeds):
            name = variant if variant == "base" else f"{variant}-{11 + seed}"
            values = pd.DataFrame(hard + rng.normal(0, 0.1, size=hard.shape), columns=columns)
            for column in ("s_c0_i0", "s_c2_i0", "s_c1_i1", "t_p1_p2"):
                values[column] += 0.15 + lift
            named = {name: instances[name] for name in ("instance_id", "image_id")}
            subsets = [
                list_subsets(*row)
                for row in instances[["type", "subtype", "compounds"]]
                .fillna("")
                .itertuples(index=False, name=None)
            ]
            parts.append(values.assign(**named, subsets=subsets, model=name, benchmark="instances"))
            for metric, top in (("loss", -2.0), ("accuracy", 0.4), ("group", 0.3)):
                for step in range(0, 401, 50):
                    value = top * (1 - np.exp(-step / 150)) + rng.normal(0, 0.01) + (3 if top < 0 else 0.3)
                    point = {"model": name, "step": step, "metric": metric, "value": value}
                    curves.append({**point, "kept": step == 200})
    similarities = build_frame(SIMILARITIES, pd.concat(parts, ignore_index=True))
    metrics = summarise_similarities(similarities, {"instances": BENCHMARK}, bootstrap=Bootstrap(200, 0))
    out = data / "evaluate"
    write_table(METRICS_TABLE, metrics, out / "metrics.parquet")
    put(out / "metrics.json", {"base": {"group": 0.5}})
    summarise_variants(metrics).to_csv(out / "variants.csv", index=False)
    runs = compute_run_hits(similarities, "instances", BENCHMARK.metrics)
    headline = runs.select_metrics(HEADLINE)
    compare_variants(runs, BENCHMARK, bootstrap=Bootstrap(200, 0)).to_csv(
        out / "differences.csv", index=False
    )
    compute_bounds(headline, data / "assemble", allow_unmentioned_objects=False).to_csv(
        out / "bounds.csv", index=False
    )
    write_table(SIMILARITIES, similarities, out / "similarities.parquet")
    probes = [
        (model, target, 120, 0.27, 0.3 + 0.5 * share, 0.22 + 0.5 * share, 0.38 + 0.5 * share)
        for model, share in (
            (PIXELS, 1.0),
            ("base", 0.0),
            *((f"{v}-11", lift) for v, lift in MODELS.items() if lift),
        )
        for target in (CELLS, NOUN, RELATION, WORD)
    ]
    pd.DataFrame(probes, columns=list(PROBE_COLUMNS)).to_csv(out / "probes.csv", index=False)
    count_separable(headline).to_csv(out / "separability.csv", index=False)
    standardise_compounds(headline, bootstrap=Bootstrap(200, 0)).to_csv(out / "compounds.csv", index=False)
    found = metrics[
        (metrics["model"] == "base") & metrics["metric"].isin(("accuracy", "i2t", "t2i", "group"))
    ]
    classes = ("image_natural", "image_synthetic", "text_natural", "text_synthetic")
    shares = [found[found["metric"] == "i2t"].assign(metric=name) for name in classes]
    write_table(
        METRICS_TABLE,
        pd.concat([found, *shares, *(of.assign(benchmark=PLANTED) for of in (found, *shares))]).assign(
            model="detectors"
        ),
        out / "detectors.parquet",
    )
    lost = {"change": -0.03, "ci_low": -0.05, "ci_high": -0.01}
    kept = [
        {
            **{"model": model, "variant": parse_variant(model), "measure": measure},
            "value": value - 0.3 * MODELS[parse_variant(model)] + rng.normal(0, 0.01),
            **(
                dict.fromkeys(("change", "ci_low", "ci_high"))
                if model == "base" or measure in DISTANCE_MEASURES
                else lost
            ),
        }
        for model in dict.fromkeys(metrics["model"])
        for measure, value in (
            ("i2t_1", 0.5),
            ("t2i_1", 0.4),
            ("classes", 0.8),
            ("weights", 0.1),
            ("texts", 1.0),
        )
    ]
    pd.DataFrame(kept, columns=list(RETAINED_COLUMNS)).to_csv(out / "retained.csv", index=False)
    rows = pd.DataFrame(curves)
    base = rows["model"] == "base"
    for stage, mine in (
        ("base", rows[base]),
        ("generator", rows[base].assign(model="generator")),
        ("writer", rows[base].assign(model="train_writer")),
        ("finetune", rows[~base]),
    ):
        (data / stage).mkdir(parents=True, exist_ok=True)
        mine.to_csv(data / stage / "curves.csv", index=False)
    searched = [
        ("trohn_text", point, json.dumps({"lr": lr}), seed, "group", value, stopped, False, point == 2)
        for point, lr, seed, value, stopped in (
            (1, 0.001, 21, 0.2, 1),
            (2, 0.002, 21, 0.4, None),
            (2, 0.002, 22, 0.6, None),
        )
    ]
    pd.DataFrame(searched, columns=list(SEARCHED)).to_csv(data / "finetune" / "searched.csv", index=False)
