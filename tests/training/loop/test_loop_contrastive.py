import shutil
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from training_rows import training_rows
from training_settings import train

from caramel.errors import BackendError, ConfigError, DataError
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.data import loader
from caramel.training.data.batch import assemble_batch
from caramel.training.data.examples import load_examples
from caramel.training.data.list_columns import LISTS
from caramel.training.loop import contrastive
from caramel.training.loop.contrastive import compute_validation_metrics, prefetch
from caramel.training.objective import Objective, add_logit_bias


@pytest.fixture
def rows(world, files) -> pd.DataFrame:
    return training_rows(world, list(files), 24)


def settings(tmp_path, **changes):
    return {
        "seed": 1,
        "steps": 12,
        "batch_size": 16,
        "lr": 0.003,
        "warmup_steps": 2,
        "weight_decay": 0.1,
        "checkpoint_every": 6,
        "scratch": tmp_path,
        **changes,
    }


@pytest.mark.parametrize("variant", METHODS)
def test_every_variant_learns_its_training_rows(variant, rows, files, clip_folder, tmp_path) -> None:
    clip, method = load_checkpoint(clip_folder), METHODS[variant]
    examples = load_examples(add_logit_bias(clip) if method.bias else clip, rows, files, method=method)
    curve = train(clip, examples, [], **settings(tmp_path, steps=40, batch_size=48, checkpoint_every=20))
    losses = [value for _, name, value in curve if name == "loss"]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("measured_by", "metrics"),
    [
        ("infonce", {"retrieval"}),
        ("trohn_text", {"retrieval", "accuracy"}),
        ("trohn_img", {"retrieval", "accuracy", "group"}),
    ],
)
def test_what_is_measured_is_what_the_validation_rows_have(
    measured_by, metrics, rows, files, clip_folder
) -> None:
    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS[measured_by])
    assert set(compute_validation_metrics(clip, examples, "cpu", "fp32")) == metrics


@pytest.mark.parametrize("column", ["negative_captions", "negative_image_ids"])
@pytest.mark.parametrize("lost", [1, 7, 24])
def test_a_row_without_its_negative_is_an_error_and_no_other_method(
    column, lost, rows, files, clip_folder
) -> None:
    clip = load_checkpoint(clip_folder)
    columns = LISTS if column == "negative_captions" else [column]
    for each in columns:
        gone = [[] if len(columns) > 1 else [None] * len(values) for values in rows[each][-lost:]]
        rows = rows.assign(**{each: [*rows[each][:-lost], *gone]})
    method = METHODS["trohn_img" if column == "negative_image_ids" else "trohn_text"]
    with pytest.raises(DataError, match=f"{lost} of 24 rows have no {column}") as stopped:
        load_examples(clip, rows, files, method=method)
    named = [line for line in str(stopped.value).splitlines() if line.startswith("  - '")]
    assert len(named) == min(lost, 5)
    assert repr(rows["caption"].iloc[-lost]) in named[0]
    assert len(load_examples(clip, rows, files, method=METHODS["infonce"])) == 24


def test_an_image_that_is_not_there_is_named(rows, files, clip_folder) -> None:
    rows.loc[rows.index[3], "image_id"] = "elsewhere"
    with pytest.raises(DataError, match=r"(?s)1 of 24 rows name an image.*'elsewhere'"):
        load_examples(load_checkpoint(clip_folder), rows, files, method=METHODS["infonce"])


def test_two_runs_of_one_seed_give_the_same_weights(rows, files, clip_folder, tmp_path) -> None:
    states = []
    for name in ("a", "b"):
        clip = load_checkpoint(clip_folder)
        examples = load_examples(clip, rows, files, method=METHODS["trohn_text"])
        train(clip, examples, [], **settings(tmp_path / name))
        states.append(clip.model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_a_training_is_equal_bit_for_bit_with_any_number_of_processes_killed_or_not(
    rows, files, clip_folder, tmp_path, monkeypatch
) -> None:
    def trained(name: str, workers: int) -> tuple[Any, dict[str, torch.Tensor]]:
        clip = load_checkpoint(clip_folder)
        examples = load_examples(clip, rows, files, method=METHODS["trohn_img"])
        curve = train(clip, examples, [examples], **settings(tmp_path / name, num_workers=workers))
        return curve, clip.model.state_dict()

    curve, weights = trained("held", 0)
    monkeypatch.setattr(loader, "HELD", 0)
    ended: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ended.append)
    (tmp_path / "killed").mkdir()
    shutil.copy(next((tmp_path / "held").glob("step-00000006.*")), tmp_path / "killed")
    for name, workers in (("0", 0), ("1", 1), ("2", 2), ("killed", 2)):
        again, others = trained(name, workers)
        assert again == curve
        assert all(torch.equal(others[key], weights[key]) for key in weights)
    assert not ended  # a process that did not end well would be told of here


def test_of_a_large_set_no_picture_is_decoded_before_it_is_trained_on(
    rows, files, clip_folder, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(loader, "HELD", 0)
    opened: list[str] = []
    decode = loader.decode_training_image
    monkeypatch.setattr(
        loader, "decode_training_image", lambda data, name: opened.append(name) or decode(data, name)
    )
    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS["infonce"])
    assert (examples.held, opened) == (False, [])
    train(clip, examples, [], **settings(tmp_path, steps=3))
    # 48 draws of 24 images: small ones are kept once they are decoded
    assert sorted(opened) == sorted(rows["image_id"].unique())


def test_how_long_steps_waited_is_told_with_the_points_and_is_no_part_of_the_curve(
    rows, files, clip_folder, tmp_path
) -> None:
    clip, told = load_checkpoint(clip_folder), []
    examples = load_examples(clip, rows, files, method=METHODS["infonce"])
    curve = train(clip, examples, [], **settings(tmp_path, on_points=told.extend))
    assert [point for point in told if point[1] != "waiting_share"] == curve
    shares = [(step, value) for step, name, value in told if name == "waiting_share"]
    assert [step for step, _ in shares] == [6, 12]
    assert all(0 < share < 1 for _, share in shares)


def loss_of(clip, examples, rows) -> float:
    return (
        Objective(clip, examples.method)
        .compute_loss(assemble_batch(clip, examples, np.asarray(rows), 1, 0))
        .item()
    )


def test_negative_images_make_a_batch_twice_as_wide(rows, files, clip_folder) -> None:
    clip = load_checkpoint(clip_folder)
    found = loss_of(clip, load_examples(clip, rows, files, method=METHODS["trohn_img"]), range(8))
    ours = rows.iloc[:8]
    negatives = {
        "pair_id": ours["pair_id"],
        "image_id": ours["negative_image_ids"].str[0],
        "caption": ours["negative_captions"].str[0],
    }
    both = pd.concat([ours[[*negatives]], pd.DataFrame(negatives)])
    again = loss_of(clip, load_examples(clip, both, files, method=METHODS["infonce"]), range(16))
    assert found == pytest.approx(again, abs=1e-5)


def test_validation_metrics_are_their_definitions(rows, files, clip_folder) -> None:
    from caramel.models.open_clip.encoder import ClipEncoder

    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS["trohn_img"])
    found = compute_validation_metrics(clip, examples, "cpu", "fp32")
    encoder = ClipEncoder(clip, "cpu", "fp32", "t")
    i0 = encoder.encode_images([files[name] for name in rows["image_id"]], 8)
    i1 = encoder.encode_images([files[name] for name in rows["negative_image_ids"].str[0]], 8)
    c0, c1 = (
        encoder.encode_texts(t.tolist(), 8) for t in (rows["caption"], rows["negative_captions"].str[0])
    )
    accuracy, group = [], []
    for a, b, c, d in zip(i0, i1, c0, c1, strict=True):
        accuracy.append(a @ c > a @ d)
        group.append(a @ c > a @ d and b @ d > b @ c and a @ c > b @ c and b @ d > a @ d)
    assert found["accuracy"] == pytest.approx(np.mean(accuracy))
    assert found["group"] == pytest.approx(np.mean(group))


def test_retrieval_of_close_vectors_is_right_in_bf16_and_any_caption_of_an_image_counts(
    rows, files, clip_folder, monkeypatch
) -> None:
    clip, method = load_checkpoint(clip_folder), METHODS["infonce"]
    shared = rows.assign(image_id=rows["image_id"].iloc[:12].repeat(2).to_numpy())  # two captions an image
    examples = load_examples(clip, shared, files, method=method)
    drawn = torch.randn(12, 64, generator=torch.Generator().manual_seed(0))
    vectors = torch.nn.functional.normalize(1 + 0.02 * drawn, dim=-1).repeat_interleave(2, 0)
    for name in ("encode_image", "encode_text"):
        monkeypatch.setattr(contrastive, name, lambda clip, stack: vectors)
    assert compute_validation_metrics(clip, examples, "cpu", "bf16") == {"retrieval": 1.0}


def test_accuracy_is_that_of_each_rows_first_negative(rows, files, clip_folder) -> None:
    clip = load_checkpoint(clip_folder)
    others = {name: [*rows[name].iloc[1:], rows[name].iloc[0]] for name in LISTS}
    joined = {
        name: [[*own, *other] for own, other in zip(rows[name], others[name], strict=True)] for name in LISTS
    }
    several = load_examples(clip, rows.assign(**joined), files, method=METHODS["negclip"])
    assert len(several.negatives.texts) > len(rows)
    found = compute_validation_metrics(clip, several, "cpu", "fp32")
    one = load_examples(clip, rows, files, method=METHODS["trohn_text"])
    assert found == compute_validation_metrics(clip, one, "cpu", "fp32")


def test_the_next_batch_is_made_in_a_thread_and_is_that_of_its_step() -> None:
    threads: dict[int, threading.Thread] = {}

    def make(step: int) -> int:
        threads[step] = threading.current_thread()
        return 10 * step

    with prefetch(make, 6) as batch_of:
        assert [batch_of(step) for step in (2, 3, 4, 5)] == [20, 30, 40, 50]
    here = threading.current_thread()
    assert {step: thread is here for step, thread in threads.items()} == {
        2: True,
        3: False,
        4: False,
        5: False,
    }


def test_an_error_of_a_batch_is_raised_where_it_is_asked_for() -> None:
    def make(step: int) -> int:
        if step == 1:
            raise DataError("no row")
        return step

    with prefetch(make, 3) as batch_of:
        assert batch_of(0) == 0
        with pytest.raises(DataError, match="no row"):
            batch_of(1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_an_error_that_names_the_devices(
    rows, files, clip_folder, tmp_path
) -> None:
    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS["infonce"])
    with pytest.raises(BackendError, match=r"'cuda' cannot be used: .*Use auto, cpu"):
        train(clip, examples, [], **settings(tmp_path, device="cuda"))


def trained(clip_folder, rows, files, folder, name: str = "trohn_text", **changes):
    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS[name])
    curve = train(clip, examples, [examples], **settings(folder, **changes))
    return curve, clip.model


def changed(clip_folder, model) -> set[str]:
    base = load_checkpoint(clip_folder).model.state_dict()
    return {name for name, value in model.state_dict().items() if not torch.equal(value, base[name])}


def test_what_is_not_trained_stays_as_it_was(rows, files, clip_folder, tmp_path) -> None:
    _, model = trained(clip_folder, rows, files, tmp_path / "text", trainable="text")
    assert changed(clip_folder, model)
    assert not any(name.startswith("visual.") for name in changed(clip_folder, model))
    lora = {"rank": 2, "alpha": 2.0, "targets": ["*.mlp.*.weight"]}
    whole, model = trained(clip_folder, rows, files, tmp_path / "lora", trainable="lora", lora=lora)
    assert changed(clip_folder, model)
    assert all(".mlp." in name for name in changed(clip_folder, model))
    (tmp_path / "killed").mkdir()
    shutil.copy(next((tmp_path / "lora").glob("step-00000006.*")), tmp_path / "killed")
    again, resumed = trained(clip_folder, rows, files, tmp_path / "killed", trainable="lora", lora=lora)
    assert again == whole
    assert all(torch.equal(v, model.state_dict()[n]) for n, v in resumed.state_dict().items())


def test_the_average_of_the_weights_is_what_is_measured_and_kept(rows, files, clip_folder, tmp_path) -> None:
    clip, states = load_checkpoint(clip_folder), []

    def note(points) -> None:
        states.append({name: value.clone() for name, value in clip.model.state_dict().items()})

    examples = load_examples(clip, rows, files, method=METHODS["trohn_text"])
    how = settings(tmp_path, steps=3, checkpoint_every=1, ema_decay=0.15, on_points=note)
    curve = train(clip, examples, [examples], **how)
    expected = load_checkpoint(clip_folder).model.state_dict()
    for step, state in enumerate(states):
        decay = min(0.15, (step + 1) / (step + 10))
        expected = {name: decay * value + (1 - decay) * state[name] for name, value in expected.items()}
    for name, value in clip.model.state_dict().items():
        assert torch.allclose(value, expected[name].to(value.dtype), atol=1e-6), name
    assert not all(torch.equal(value, states[-1][name]) for name, value in clip.model.state_dict().items())
    found = compute_validation_metrics(clip, examples, "cpu", "fp32")
    assert {name: value for step, name, value in curve if step == 3 and name != "loss"} == found


def test_parts_and_recomputed_layers_train_as_the_whole_batch_does(
    rows, files, clip_folder, tmp_path
) -> None:
    curve, model = trained(clip_folder, rows, files, tmp_path / "0", "degla", batch_size=40)
    for n, changes in enumerate(({"micro_batch_size": 3}, {"grad_checkpointing": True}), 1):
        again, other = trained(clip_folder, rows, files, tmp_path / str(n), "degla", batch_size=40, **changes)
        losses = [value for _, name, value in again if name == "loss"]
        assert losses == pytest.approx([value for _, name, value in curve if name == "loss"], rel=1e-4)
        for name, value in model.state_dict().items():
            assert torch.allclose(other.state_dict()[name], value, atol=2e-3), name


@pytest.mark.parametrize("name", ["ce_clip", "degla", "negclip", "clic_joined"])
def test_what_a_method_carries_goes_on_where_a_training_was_killed(
    name, rows, files, clip_folder, tmp_path
) -> None:
    curve, model = trained(clip_folder, rows, files, tmp_path / "whole", name, batch_size=40)
    (tmp_path / "killed").mkdir()
    shutil.copy(next((tmp_path / "whole").glob("step-00000006.*")), tmp_path / "killed")
    again, resumed = trained(clip_folder, rows, files, tmp_path / "killed", name, batch_size=40)
    assert again == curve
    assert all(torch.equal(v, model.state_dict()[n]) for n, v in resumed.state_dict().items())


def test_a_training_that_diverges_names_the_pairs_of_its_batch(rows, files, clip_folder, tmp_path) -> None:
    rows = rows.assign(pair_id=[f"pair {n}" for n in range(24)])
    with pytest.raises(ConfigError, match=r"(?s)not finite.*Rows of the batch:\n  - pair \d"):
        trained(clip_folder, rows, files, tmp_path, lr=1e30, warmup_steps=1)
