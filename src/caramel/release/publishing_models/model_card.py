"""Write ``README.md`` of a released model: training data and method, metrics, forgetting, and how to load it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.release.pin_file import Pin
from caramel.release.publishing.contents import VersionContents
from caramel.release.publishing.escaping import escape_markdown, format_code, format_table, format_yaml
from caramel.release.publishing.licences import LICENCES, build_hub_fields
from caramel.release.publishing.metadata import About
from caramel.schemas.evaluation import METRICS

METRICS_FILE = "data/evaluate/metrics.parquet"
RETAINED = "data/evaluate/retained.csv"
_LOST = {
    "i2t_1": "image to text, R@1",
    "i2t_5": "image to text, R@5",
    "t2i_1": "text to image, R@1",
    "t2i_5": "text to image, R@5",
    "classes": "zero-shot classification",
    "images": "cosine of image vectors with the base's",
    "texts": "cosine of text vectors with the base's",
    "weights": "distance of the weights from the base's",
}


class ModelFacts(NamedTuple):
    """The inputs of a model card."""

    run: str
    pinned: Pin
    contents: VersionContents
    card: Mapping[str, Any]  # of the checkpoint
    config: Mapping[str, Any]  # of open_clip
    about: About
    why_not: str  # reason why transformers cannot load it; "" if it can


def write_model_card(facts: ModelFacts, folder: Path) -> None:
    """Write ``README.md``."""
    header = {
        **build_hub_fields(facts.about.licence),
        "library_name": "open_clip",
        "pipeline_tag": "zero-shot-image-classification",
        "tags": ["clip", "compositionality", "caramel"],
    }
    (folder / "README.md").write_text(
        f"---\n{format_yaml(header)}---\n\n{_format_body(facts)}", encoding="utf-8"
    )


def _format_body(facts: ModelFacts) -> str:
    pinned = facts.pinned
    sections = [
        f"# {escape_markdown(facts.run)}",
        f"{_format_origin(facts)} version {format_code(pinned.name)} of {pinned.created}, git commit {format_code(pinned.commit)}, data "
        f"SHA-256 {format_code(pinned.data)}.",
        "" if facts.about.licence in LICENCES else "> **Its licence is not stated.**",
        "## Loading",
        _format_loading(facts),
        "## Activation and preprocessing",
        _format_preprocessing(facts.config),
        "## Training",
        _format_training(facts),
        "## Figures",
        _format_metrics(facts),
        "## What fine-tuning changed",
        _format_forgetting(facts),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _get_adopted_base(facts: ModelFacts) -> str:
    """Return the name of an adopted base model; "" if the version trained its own or does not name one."""
    section = facts.pinned.params.get("pretrain", {})
    return str(section.get("pretrained") or "") if section.get("backend") == "pretrained" else ""


def _format_origin(facts: ModelFacts) -> str:
    """Return the model's origin, as the beginning of a sentence that continues with a version."""
    adopted = format_code(_get_adopted_base(facts)) if _get_adopted_base(facts) else ""
    if not facts.card.get("variant"):
        return f"{adopted}, adopted as the base of" if adopted else "A CLIP trained with caramel on"
    return f"A CLIP, fine-tuned with caramel{f' from {adopted}' if adopted else ''} on"


def _format_test_exposure(facts: ModelFacts) -> str:
    """Return whether the test split was in the training data.

    This is known only for models trained here from scratch.
    """
    if facts.pinned.params.get("pretrain", {}).get("backend") == "open_clip":
        return "The instances of the test split were not in its training data."
    base = format_code(_get_adopted_base(facts)) if _get_adopted_base(facts) else "its base"
    return f"The version does not record the training data of {base}, so it is unknown whether that contains images or texts of the test split."


def _format_loading(facts: ModelFacts) -> str:
    snippet = (
        "```python\nimport open_clip\n\n"
        'model, _, preprocess = open_clip.create_model_and_transforms("local-dir:PATH")\n'
        'tokenizer = open_clip.get_tokenizer("local-dir:PATH")\n```'
    )
    if facts.why_not:
        return f"{snippet}\n\ntransformers cannot load it: {escape_markdown(facts.why_not)}."
    return f'{snippet}\n\n```python\nfrom transformers import CLIPModel, CLIPProcessor\n\nmodel = CLIPModel.from_pretrained("PATH")\nprocessor = CLIPProcessor.from_pretrained("PATH")\n```'


def _format_preprocessing(config: Mapping[str, Any]) -> str:
    """Return activation and preprocessing; wrong ones change metrics without an error."""
    quick = config["model_cfg"]["quick_gelu"]
    cells = [("activation", "QuickGELU" if quick else "GELU")]
    cells += [
        (name, format_code(json.dumps(value))) for name, value in sorted(config["preprocess_cfg"].items())
    ]
    return format_table(("what", "value"), cells)


def _format_training(facts: ModelFacts) -> str:
    """Return method, parameters and the checkpoint's own record."""
    params = facts.pinned.params
    variant = facts.card.get("variant")
    section = params.get("finetune" if variant else "pretrain", {})
    overrides = section.get("overrides", {}).get(variant, {}) if variant else {}
    parameters = {
        name: value
        for name, value in {**section, **overrides}.items()
        if name not in ("overrides", "variants", "seeds")
        and (
            variant or not _get_adopted_base(facts) or name in ("backend", "pretrained")
        )  # nothing was trained
    }
    method = (
        f"Fine-tuned by the method {format_code(str(variant))} from the version's base. "
        if variant
        else "The base of the version. "
    )
    known = [(format_code(name), format_code(json.dumps(value))) for name, value in facts.card.items()]
    settings = [(format_code(name), format_code(json.dumps(value))) for name, value in parameters.items()]
    return "\n\n".join(
        (
            method + _format_test_exposure(facts),
            format_table(("checkpoint field", "value"), known),
            format_table(("parameter", "value"), settings),
        )
    )


def _format_metrics(facts: ModelFacts) -> str:
    """Return the model's metrics over all instances of each benchmark, with intervals."""
    metrics = facts.contents.load_table(METRICS, METRICS_FILE)
    model_rows = (
        None if metrics is None else metrics[(metrics["model"] == facts.run) & (metrics["subset"] == "all")]
    )
    if model_rows is None or model_rows.empty:
        return "The version has no metrics of this model."
    lines = [
        (format_code(row["benchmark"]), format_code(row["metric"]), _format_share(row), f"{row['n']:,}")
        for row in model_rows.to_dict("records")
        if not pd.isna(row["value"])
    ]
    return format_table(("benchmark", "metric", "per cent [95 % interval]", "instances"), lines)


def _format_share(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["ci_low"]):
        return f"{100 * row['value']:.1f}"
    return f"{100 * row['value']:.1f} [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]"


def _format_forgetting(facts: ModelFacts) -> str:
    """Return the forgetting metrics of the model beside the base's."""
    path = facts.contents.find_file(RETAINED)
    if path is None:
        return "Not measured."
    with path.open(encoding="utf-8", newline="") as stream:
        values = {(row["model"], row["measure"]): row["value"] for row in csv.DictReader(stream)}
    lines = [
        (
            text,
            f"{float(model_value):.3f}",
            f"{float(values['base', key]):.3f}" if values.get(("base", key)) else "",
        )
        for key, text in _LOST.items()
        if (model_value := values.get((facts.run, key)))
    ]
    return format_table(("measure", "this model", "base"), lines) if lines else "Not measured."
