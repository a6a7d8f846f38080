"""Write ``README.md`` of a release: the hub's header, contents, loading instructions and licences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.release.pin_file import Pin
from caramel.release.publishing.escaping import (
    escape_markdown,
    escape_paragraphs,
    format_code,
    format_table,
    format_yaml,
)
from caramel.release.publishing.licences import LICENCES, build_hub_fields
from caramel.release.publishing.metadata import About, Source, strip_source_settings
from caramel.schemas.contracts import Table

EXAMPLES = 3  # number of instances on the card
_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
)
_WHAT = {
    "instances": "the benchmark: two captions, one or two images, and a paraphrase if available",
    "instances_source": "the same instances with the positive images of the source",
    "captions": "captions with hard negatives and, if available, paraphrases; images are not part of the data",
    "training": "training data: an image, its caption, and hard negatives with their images",
}


class ReleasedTable(NamedTuple):
    """A table that was released with its images."""

    name: str
    table: Table
    splits: dict[str, int]  # split -> rows


class ReleaseFacts(NamedTuple):
    """The inputs of a release's texts."""

    pinned: Pin
    about: About
    parts: list[ReleasedTable]
    sources: list[str]
    instances: pd.DataFrame | None
    images: pd.DataFrame  # the index

    @property
    def title(self) -> str:
        """Return the release's title."""
        return self.about.title or f"Data set {self.pinned.name}"

    @property
    def captions_alone(self) -> bool:
        """Return whether the release has captions and no images."""
        return [part.name for part in self.parts] == ["captions"]

    @property
    def description(self) -> str:
        """Return the authors' description, or a general one."""
        what = "Captions" if self.captions_alone else "Images and captions"
        return self.about.description or f"{what} with hard negatives, built and audited with caramel."


def write_card(facts: ReleaseFacts, lacks: Sequence[str], folder: Path) -> None:
    """Write ``README.md`` with the header that tells ``datasets.load_dataset`` the tables and splits.

    Args:
        facts: about the release.
        lacks: open points, one line each.
        folder: output folder.
    """
    text = f"---\n{format_yaml(build_header(facts))}---\n\n{_format_body(facts, lacks)}"
    (folder / "README.md").write_text(text, encoding="utf-8")


def build_header(facts: ReleaseFacts) -> dict[str, Any]:
    """Return the metadata header for the hub."""
    total = max(sum(part.splits.values()) for part in facts.parts)
    configs = [
        {
            "config_name": part.name,
            **({"default": True} if part is facts.parts[0] else {}),
            "data_files": [
                {"split": split, "path": f"data/{part.name}/{split}-*.parquet"} for split in part.splits
            ],
        }
        for part in facts.parts
    ]
    return {
        "pretty_name": facts.title,
        **build_hub_fields(facts.about.licence),
        "language": list(facts.about.languages),
        "task_categories": ["text-classification"]
        if facts.captions_alone
        else ["image-to-text", "zero-shot-image-classification"],
        "tags": ["compositionality", "hard-negatives", "caramel", *facts.about.keywords],
        "size_categories": [next((name for limit, name in _SIZES if total < limit), "n>10M")],
        "configs": configs,
    }


def _format_body(facts: ReleaseFacts, lacks: Sequence[str]) -> str:
    pinned = facts.pinned
    sections = [
        f"# {escape_markdown(facts.title)}",
        escape_paragraphs(facts.description),
        f"Version {format_code(pinned.name)} of {pinned.created}, git commit {format_code(pinned.commit)}, data SHA-256 "
        f"{format_code(pinned.data)}. `pin.json` is the pin; `sha256sum -c SHA256SUMS` checks the files.",
        _format_open_points(lacks),
        "## Contents",
        format_table(
            ("table", "contents", "rows by split"),
            [
                (format_code(p.name), _WHAT.get(p.name, ""), escape_markdown(_format_counts(p.splits)))
                for p in facts.parts
            ],
        ),
        *([] if facts.instances is None else ["## Instances by subtype", format_statistics(facts.instances)]),
        "`DATASHEET.md` describes how it was made and its intended use; `croissant.json` holds the same for programs. "
        "Cite it with `citation.bib` or `CITATION.cff`.",
        "## Loading",
        _format_loading(facts),
        "## Licences",
        _format_licences(facts),
        *([] if facts.instances is None else ["## Examples", _format_examples(facts.instances)]),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _format_counts(splits: dict[str, int]) -> str:
    return ", ".join(f"{split} {count:,}" for split, count in splits.items())


def _format_open_points(lacks: Sequence[str]) -> str:
    """Return the open points of the release as a block of Markdown."""
    if not lacks:
        return ""
    points = "\n".join(f"- {escape_markdown(point)}" for point in lacks)
    return f"> **This release is not finished.** The points below are open. Do not cite it before they are answered.\n\n{points}"


def format_statistics(instances: pd.DataFrame) -> str:
    """Return the table of counts by subtype: instances of each split, and instances with paraphrase or negative image."""
    splits = list(dict.fromkeys(instances["split"]))
    lines = []
    for subtype in [*sorted(instances["subtype"].unique()), None]:
        of = instances if subtype is None else instances[instances["subtype"] == subtype]
        counts = [f"{int((of['split'] == split).sum()):,}" for split in splits]
        has = [f"{int(of[column].notna().sum()):,}" for column in ("caption2", "negative_image_id")]
        lines.append(
            (
                "all" if subtype is None else format_code(subtype),
                *counts,
                *has,
                f"{of['image_id'].nunique():,}",
            )
        )
    return format_table(("subtype", *splits, "with paraphrase", "with negative image", "images"), lines)


def _format_loading(facts: ReleaseFacts) -> str:
    parts = facts.parts
    paragraphs = [
        "```python\nimport datasets\n\n"
        + "\n".join(
            f'{part.name} = datasets.load_dataset("PATH", "{part.name}", split="{next(iter(part.splits))}")'
            for part in parts
        )
        + "\n```",
        "PATH is this folder, or its name on the hub.",
    ]
    names = [part.name for part in parts]
    if "instances" in names:
        paragraphs.append(
            "`formats/SPLIT/` has the instances in the files of SugarCrepe, SugarCrepe++, BiVLC and CREPE, and their images in "
            "`images.tar`: `tar -xf images.tar -C images`. The CREPE files hold only captions of the embedded world, mostly with one "
            "negative each, so their figures cannot be compared with published ones."
        )
    if "captions" in names:
        paragraphs.append("`formats/SPLIT/` has the captions in the files of SugarCrepe and SugarCrepe++.")
    if "training" in names:
        paragraphs.append(
            "`webdataset/` has the training rows as WebDataset, which open_clip's training program reads: an image, `txt` "
            "(its caption), `json` (paraphrase and hard negatives) and `negative0.…` (their images)."
        )
    return "\n\n".join(paragraphs)


def _format_licences(facts: ReleaseFacts) -> str:
    """Return the licences of the release and of each source, with what they permit."""
    about = facts.about
    lines = [("**this release**", *_format_licence(about.licence), "")]
    counts = facts.images["source"].map(strip_source_settings).value_counts()
    for name in facts.sources:
        source = about.sources.get(name, Source())
        note = "; ".join(escape_markdown(text) for text in (source.url, source.note) if text)
        part = "captions" if facts.captions_alone else f"{int(counts.get(name, 0)):,} images"
        lines.append(
            (format_code(name), *_format_licence(source.licence), f"{part}: {note}" if note else part)
        )
    return format_table(("source", "licence", "permissions", "part"), lines)


def _format_licence(name: str | None) -> tuple[str, str]:
    known = LICENCES.get(name or "")
    if known:
        return f"[{known.name}]({known.url})", known.permits
    return ("**not stated**" if name is None else f"**{escape_markdown(name)}, which is unknown**", "")


def _format_examples(instances: pd.DataFrame) -> str:
    """Return some instances with their texts unchanged."""
    return format_table(
        ("subtype", "caption", "hard negative"),
        [
            (
                format_code(row["subtype"]),
                escape_markdown(row["caption"]),
                escape_markdown(row["negative_caption"]),
            )
            for row in instances.drop_duplicates("subtype").head(EXAMPLES).to_dict("records")
        ],
    )
