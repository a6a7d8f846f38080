from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_rows import training_rows

from caramel.interfaces.method import Features
from caramel.io.image_codec import decode_image
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.data.examples import load_examples
from caramel.training.data.list_columns import LISTS
from caramel.training.data.row_units import get_needed_list
from caramel.training.loop import batch_accuracy
from caramel.training.loop.batch_accuracy import compute_batch_accuracy


@pytest.fixture
def rows(world: Any, files: dict[str, bytes]) -> Any:
    return training_rows(world, list(files), 12)


def expected(clip: Any, table: Any, files: dict[str, bytes], name: str, size: int) -> float:
    """The definition in plain loops, on vectors of single items."""
    import torch

    from caramel.models.open_clip.encoder import encode_image, encode_text

    def image(key: str) -> Any:
        pixels = np.asarray(clip.to_pixels(decode_image(files[key], key))).transpose(2, 0, 1).copy()
        return encode_image(clip, torch.from_numpy(pixels[None]))[0]

    def text(words: str) -> Any:
        return encode_text(clip, torch.as_tensor(clip.tokenize([words])))[0]

    parts = []
    for start in range(0, len(table), size):
        pairs, lone, further = [], [], []
        part = table.iloc[start : start + size]
        pairs += [(row.image_id, row.caption) for row in part.itertuples()]
        for row in part.itertuples():
            if name == "trohn_img":
                pairs.append((row.negative_image_ids[0], row.negative_captions[0]))
            elif name == "trohn_text":
                lone.append(row.negative_captions[0])
            elif name == "negative_images":
                further.append(row.negative_image_ids[0])
        images = torch.stack([image(key) for key in [*(key for key, _ in pairs), *further]])
        texts = torch.stack([text(words) for words in [*(words for _, words in pairs), *lone]])
        owners = [key for key, _ in pairs] + [None] * max(len(lone), len(further))
        scores = (images @ texts.T).detach().numpy()
        i2t = np.mean([owners[scores[i].argmax()] == owners[i] for i in range(len(pairs))])
        t2i = np.mean([owners[scores[:, j].argmax()] == owners[j] for j in range(len(pairs))])
        parts.append((i2t + t2i) / 2)
    return float(np.mean(parts))


@pytest.mark.parametrize("name", ["infonce", "trohn_text", "trohn_img", "negative_images"])
def test_it_is_the_mean_over_batches_of_both_directions(
    name: str, rows: Any, files: dict[str, bytes], clip_folder: Path
) -> None:
    clip, method = load_checkpoint(clip_folder), METHODS[name]
    table = rows.head(10)
    examples = load_examples(clip, table, files, method=method, unit="negatives")
    if method.negatives:
        table = table.explode(LISTS).dropna(subset=get_needed_list(method))
        table = table.assign(**{column: [[value] for value in table[column]] for column in LISTS})
    captions = 8  # of a step: 8 rows without negatives, 4 with one each
    size = captions // (1 + method.negatives)
    found = compute_batch_accuracy(clip, examples, captions, "cpu", "fp32")
    clip.model.eval()
    assert found == pytest.approx(expected(clip, table, files, name, size), abs=1e-6)
    assert 0 <= found < 1, "an untrained model is not always right"


def test_close_similarities_are_told_apart_also_where_encoders_run_in_bf16(
    rows: Any, files: dict[str, bytes], clip_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS["infonce"])
    drawn = torch.randn(len(rows), 64, generator=torch.Generator().manual_seed(0))
    vectors = torch.nn.functional.normalize(1 + 0.02 * drawn, dim=-1)  # cosines of almost 1

    def encode(clip: Any, method: Any, batch: Any) -> Features:
        return Features(
            image_features=vectors,
            text_features=vectors,
            image_ids=batch.image_ids,
            logit_scale=torch.tensor(1.0),
        )

    monkeypatch.setattr(batch_accuracy, "encode_batch", encode)
    assert compute_batch_accuracy(clip, examples, len(rows), "cpu", "bf16") == 1.0


def test_two_captions_of_one_image_are_both_right(
    rows: Any, files: dict[str, bytes], clip_folder: Path
) -> None:
    clip = load_checkpoint(clip_folder)
    one = rows.assign(image_id=rows["image_id"].iloc[0])
    examples = load_examples(clip, one, files, method=METHODS["infonce"])
    assert compute_batch_accuracy(clip, examples, 4, "cpu", "fp32") == 1.0


def test_the_weights_kept_are_the_best_by_it(
    rows: Any, files: dict[str, bytes], clip_folder: Path, tmp_path: Path
) -> None:
    from training_settings import train

    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS["trohn_text"])
    curve = train(
        clip,
        examples,
        [],
        own_validation=[examples],
        select=batch_accuracy.METRIC,
        scratch=tmp_path,
        seed=1, steps=3, batch_size=8, lr=1e-3, warmup_steps=0, weight_decay=0.1, checkpoint_every=1,
    )  # fmt: skip
    values = {step: value for step, name, value in curve if name == batch_accuracy.METRIC}
    assert set(values) == {1, 2, 3}
    assert compute_batch_accuracy(clip, examples, 8, "cpu", "fp32") == pytest.approx(max(values.values()))


@pytest.mark.parametrize("name", ["infonce", "trohn_text", "trohn_img"])
def test_micro_batches_give_the_same_and_no_pass_has_more_rows(
    name: str, rows: Any, files: dict[str, bytes], clip_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS[name])
    whole = compute_batch_accuracy(clip, examples, 12, "cpu", "fp32")
    sizes: list[int] = []
    encode = batch_accuracy.encode_batch

    def count_rows(clip: Any, method: Any, batch: Any) -> Any:
        sizes.append(len(batch.texts))
        return encode(clip, method, batch)

    monkeypatch.setattr(batch_accuracy, "encode_batch", count_rows)
    assert compute_batch_accuracy(clip, examples, 12, "cpu", "fp32", 2) == whole
    assert sum(sizes) == len(examples)
    assert max(sizes) == 2
