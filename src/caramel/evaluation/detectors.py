"""Detectors of what is synthetic: how much of a benchmark's retrieval needs no look at what is said and shown.

BiVLC (Miranda et al. 2024, 5.3 and E.3): a linear head on the projected, not normalised vectors of a frozen encoder, one
for images and one for texts, says whether an item is natural (0, the positive) or synthetic (1, the negative). Heads learn on the
training set, are kept by accuracy on its val rows, and answer the benchmark's queries by ``results.detector_files``. As in
their code Adam has lr 1e-3 (their paper says 1e-6), in batches of 400 rows. They train one epoch on images and ten on texts, of
237,000 rows; ``EPOCHS`` here, since sets may be small: the kept epoch says where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from caramel import tables
from caramel.arrays import Floats
from caramel.benchmarks.metrics import Outcomes
from caramel.benchmarks.readers.instances import subsets_of
from caramel.evaluation.results.detector_files import IMAGE, LABEL, TEXT, detected
from caramel.evaluation.results.summary import judge
from caramel.kinds.benchmark import Index
from caramel.models.clip.checkpoints import load_checkpoint
from caramel.models.clip.encoder import decode, normalised, tokenize
from caramel.storage.image_store import Pictures

if TYPE_CHECKING:
    import torch

    from caramel.models.clip.checkpoints import Clip

BATCH, RATE = 400, 1e-3
STEPS, CHECK_EVERY = {IMAGE: 592, TEXT: 5920}, 74
MODEL, INDEX = "detectors", "images.parquet"
POSITIVE, NEGATIVE = ("image_id", "caption"), ("negative_image_id", "negative_caption")
Head = Callable[["torch.Tensor"], Floats]
CLASSES = ("image_natural", "image_synthetic", "text_natural", "text_synthetic")


@dataclass(frozen=True)
class Form:
    """A form of the benchmark, and what detectors learn for it.

    Attributes:
        name: of the form.
        learnt: rows of ``POSITIVE`` and ``NEGATIVE`` with ``split``: train and val.
        asked: table ``instances`` of the split that is judged.
        pictures: image_id -> encoded file, of the images of both.
    """

    name: str
    learnt: pd.DataFrame
    asked: pd.DataFrame
    pictures: Callable[[str], bytes]


def forms_of(assembled: Path, scenes: Path, split: str) -> list[Form]:
    """Return the forms of the benchmark that stage ``assemble`` wrote.

    Args:
        assembled: its folder. Positive images of ``instances`` are those of table ``training``.
        scenes: folder of the source's pairs and images, the positives of ``instances_source``.
        split: of the instances that are judged.
    """
    training = tables.read(tables.TRAINING, assembled / "training.parquet")
    pairs = tables.read(tables.PAIRS, scenes / "pairs.parquet")
    own = dict(zip(pairs["pair_id"].astype(str), pairs["image_id"].astype(str), strict=True))
    drawn, natural = (Pictures(f, tables.read(tables.IMAGES, f)) for f in (assembled / INDEX, scenes / INDEX))

    def file(name: str) -> bytes:
        return drawn[name] if name in drawn else natural[name]

    forms = []
    for name, images in (("instances", None), ("instances_source", own)):
        if (path := assembled / f"{name}.parquet").exists():
            rows = tables.read(tables.INSTANCES, path)
            learnt = learnt_rows(training, images)
            forms.append(Form(name, learnt, rows[rows["split"] == split], file))
    return forms


def learnt_rows(training: pd.DataFrame, images: Mapping[str, str] | None) -> pd.DataFrame:
    """Return what detectors learn on of table ``training``: each row with its first negative, where that has an image.

    Args:
        training: the table.
        images: other positive images by ``pair_id``; None: those of the table.
    """
    first = {
        name: training[f"{name}s"].map(lambda of: of[0] if of is not None and len(of) else None)
        for name in ("negative_caption", "negative_image_id")
    }
    rows = training.assign(**first)
    rows = rows[rows["negative_image_id"].notna() & rows["negative_caption"].notna()]
    return rows if images is None else rows.assign(image_id=rows["pair_id"].map(images))


def detect(
    base: str, forms: Sequence[Form], *, device: str, batch: int, bootstrap: int, seed: int
) -> pd.DataFrame:
    """Return table ``metrics`` of detectors on the frozen encoders of a checkpoint folder; the forms are its benchmarks.

    Beside retrieval by detection, ``accuracy`` (the caption looks less synthetic than its negative), ``image_detected`` and
    ``text_detected`` (classed right) and the same of each class alone (``CLASSES``). Forms without a row to learn
    or to judge are left out.

    Args:
        base: checkpoint folder.
        forms: what is learnt and judged.
        device: cpu, cuda or cuda:N.
        batch: items per forward pass.
        bootstrap: resamples of the intervals.
        seed: of the order of the rows, and of the bootstrap.
    """
    parts = []
    for form in forms:
        if not len(form.asked) or not (form.learnt["split"] == "train").any():
            continue
        found = _outcomes(_chances(base, form, device=device, batch=batch, seed=seed))
        named = form.asked[["type", "subtype", "compounds"]].fillna("").itertuples(index=False, name=None)
        subsets: Any = [subsets_of(*row) for row in named]
        rows = form.asked[["image_id"]].assign(subsets=subsets)
        part = judge(rows.reset_index(drop=True), found, tables.SUBTYPES.__contains__, bootstrap, seed)
        parts.append(part.assign(model=MODEL, benchmark=form.name))
    return tables.frame(tables.METRICS, pd.concat(parts, ignore_index=True) if parts else [])


def _chances(
    base: str, form: Form, *, device: str, batch: int, seed: int
) -> dict[str, tuple[Floats, Floats]]:
    """Return the probabilities that the judged items are synthetic, of positives and negatives, for each modality."""
    clip = load_checkpoint(base, device)
    found = {}
    for modality, names, place in ((IMAGE, "image", 0), (TEXT, "text", 1)):
        columns = POSITIVE[place], NEGATIVE[place]
        items = list(dict.fromkeys(pd.concat([t[c] for t in (form.learnt, form.asked) for c in columns])))
        at = {item: i for i, item in enumerate(items)}
        vectors = _vectors(clip, names, items, form.pictures, device, batch)
        places = {
            split: [np.array(rows[column].map(at), np.int64) for column in columns]
            for split, rows in (*form.learnt.groupby("split"), ("asked", form.asked))
        }
        chances = fit_head(vectors, places["train"], places.get("val"), steps=STEPS[modality], seed=seed)
        natural, synthetic = (chances(vectors[rows]) for rows in places["asked"])
        found[modality] = natural, synthetic
    return found


def _vectors(
    clip: Clip, kind: str, items: Sequence[str], pictures: Callable[[str], bytes], device: str, batch: int
) -> torch.Tensor:
    """Return the projected vectors (n, d) of images or texts, not normalised."""
    import torch

    parts = []
    with torch.no_grad():
        for start in range(0, len(items), batch):
            some = items[start : start + batch]
            if kind == "image":
                pixels = torch.from_numpy(decode(clip, [pictures(name) for name in some])).to(device)
                parts.append(clip.model.encode_image(normalised(clip, pixels)))
            else:
                parts.append(clip.model.encode_text(torch.from_numpy(tokenize(clip, some)).to(device)))
    return torch.cat(parts).float().cpu()


def fit_head(
    vectors: torch.Tensor, train: Sequence[Index], val: Sequence[Index] | None, *, steps: int, seed: int
) -> Head:
    """Return the probability that vectors (n, d) are synthetic, (n,), by the head that is best on val; of equal ones the earlier.

    Args:
        vectors: of all items.
        train: places of natural and of synthetic ones, row by row.
        val: likewise, measured every ``CHECK_EVERY`` steps and at the end; None: the last head is kept.
        steps: number of steps.
        seed: of the order of the rows.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    head = torch.nn.Linear(vectors.shape[1], 1)
    torch.nn.init.zeros_(head.weight)  # the problem is convex: nothing is drawn
    torch.nn.init.zeros_(head.bias)
    optimizer = torch.optim.Adam(head.parameters(), lr=RATE)
    best, kept = -1.0, head.state_dict()
    parts: list[torch.Tensor] = []
    for step in range(1, steps + 1):
        parts = parts or [*torch.split(torch.randperm(len(train[0]), generator=generator), BATCH)]
        part = parts.pop()
        rows = [torch.from_numpy(places)[part] for places in train]
        classes = torch.arange(2.0).repeat_interleave(len(part))
        logits = head(vectors[torch.cat(rows)])[:, 0]
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(logits, classes).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % CHECK_EVERY == 0 or step == steps:
            right = _accuracy(head, vectors, val) if val is not None else best + 1
            if right > best:
                best, kept = right, {name: value.clone() for name, value in head.state_dict().items()}
    head.load_state_dict(kept)

    def chances(of: torch.Tensor) -> Floats:
        with torch.no_grad():
            found: Floats = head(of)[:, 0].sigmoid().double().numpy()
            return found

    return chances


def _accuracy(head: torch.nn.Module, vectors: torch.Tensor, places: Sequence[Index]) -> float:
    """Return the share of items that are classed right; a probability of one half is wrong."""
    import torch

    with torch.no_grad():
        natural, synthetic = (head(vectors[torch.from_numpy(rows)])[:, 0] for rows in places)
    return float(torch.cat([natural < 0, synthetic > 0]).float().mean())


def _outcomes(chances: Mapping[str, tuple[Floats, Floats]]) -> Outcomes:
    """Return the outcomes of the instances, (n,) each: retrieval by detection, caption choice, and what was classed right."""
    count = len(chances[TEXT][0])
    rows = pd.DataFrame({name: np.concatenate(pair) for name, pair in chances.items()})
    rows[LABEL] = np.repeat([0, 1], count)
    places = [f"item {i}" for i in range(2 * count)]
    both, _ = detected(rows, places, MODEL)
    alone, _ = detected(rows.drop(columns=IMAGE), places, MODEL)
    right = {
        f"{kind}_{name}": (np.asarray(of) > 0.5 if name == "synthetic" else np.asarray(of) < 0.5).astype(
            float
        )
        for kind, column in (("image", IMAGE), ("text", TEXT))
        for name, of in zip(("natural", "synthetic"), chances[column], strict=True)
    }
    classes = pd.DataFrame(right)
    hits = pd.concat([alone.hits[["accuracy"]], both.hits, classes], axis=1)
    ties = pd.concat([alone.ties[["accuracy"]], both.ties, classes.astype(bool) & False], axis=1)
    return Outcomes(hits, ties)
