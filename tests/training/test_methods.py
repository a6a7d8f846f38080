"""What holds of every training method: of its loss, whatever the batch, and of what it says of itself."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training_encodings import loss_of, made_up

from caramel.interfaces.method import Features
from caramel.registry import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "graph.md"
ROWWISE = [
    f.name for f in fields(Features) if f.name not in ("logit_scale", "logit_bias", "state", "teacher")
]
OF_NEGATIVES = ["negative_texts", "negative_mask", "negative_types", "negative_images", "negative_image_ids"]
SMALL = {"n": 3, "k": 2, "d": 3}

batches = st.builds(
    made_up,
    st.integers(0, 10**6),
    n=st.integers(2, 5),
    k=st.integers(1, 4),
    missing=st.sampled_from([0.0, 0.3, 0.7]),
)
several = settings(max_examples=20)


def changed(encoded: Features, change) -> Features:
    """Return the encoding, and that of its teacher, with what ``change`` gives for it."""
    teacher = encoded.teacher and replace(encoded.teacher, **change(encoded.teacher))
    return replace(encoded, **change(encoded), teacher=teacher)


def test_the_page_of_the_graph_describes_each_method_as_it_describes_itself() -> None:
    said = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    for name in METHODS:
        assert f"- `{name}`: {METHODS[name].help}" in said


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("step", [0, 1])
def test_the_gradient_is_that_of_the_loss(name: str, step: int) -> None:
    encoded = made_up(3, **SMALL)
    learnt = [
        "image_features",
        "text_features",
        "logit_scale",
        "logit_bias",
        "negative_texts",
        "negative_images",
        "paraphrases",
        "phrases",
        "foils",
        *(["patches"] if METHODS[name].patches else []),
    ]
    # Of words the published gradient leaves out one path on purpose: that through the weights of the patches.

    def loss(*values: torch.Tensor) -> torch.Tensor:
        return loss_of(METHODS[name], replace(encoded, **dict(zip(learnt, values, strict=True))), step)

    inputs = tuple(getattr(encoded, field).clone().requires_grad_() for field in learnt)
    assert torch.autograd.gradcheck(loss, inputs)


def test_the_gradient_through_words_and_patches_is_that_at_fixed_weights() -> None:
    """A step of the words along the gradient lowers the loss, and its length is as published: none through A."""
    method, encoded = METHODS["fsc_clip"], made_up(3, **SMALL)
    words, patches = (getattr(encoded, name).clone().requires_grad_() for name in ("words", "patches"))
    loss_of(method, replace(encoded, words=words, patches=patches)).backward()
    for value in (words, patches):
        assert torch.isfinite(value.grad).all()
        assert value.grad.abs().max() > 0
    lower = replace(
        encoded, words=encoded.words - 1e-3 * words.grad, patches=encoded.patches - 1e-3 * patches.grad
    )
    assert loss_of(method, lower) < loss_of(method, encoded)


@pytest.mark.parametrize("name", METHODS)
@several
@given(encoded=batches, seed=st.integers(0, 100))
def test_the_order_of_the_batch_changes_nothing(name: str, encoded: Features, seed: int) -> None:
    order = torch.randperm(len(encoded.image_features), generator=torch.Generator().manual_seed(seed))
    turned = changed(encoded, lambda e: {field: getattr(e, field)[order] for field in ROWWISE})
    assert torch.isclose(loss_of(METHODS[name], turned), loss_of(METHODS[name], encoded), rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@several
@given(encoded=batches, seed=st.integers(0, 100))
def test_the_order_of_a_rows_negatives_changes_nothing(name: str, encoded: Features, seed: int) -> None:
    n, k = encoded.negative_mask.shape
    generator = torch.Generator().manual_seed(seed)
    order = torch.stack([torch.randperm(k, generator=generator) for _ in range(n)])
    rows = torch.arange(n)[:, None]
    with_caption = torch.cat([torch.zeros(n, 1, dtype=torch.long), order + 1], 1)

    def permuted(e: Features) -> dict[str, torch.Tensor]:
        found = {field: getattr(e, field)[rows, order] for field in OF_NEGATIVES}
        return found | {field: getattr(e, field)[rows, with_caption] for field in ("words", "is_word")}

    turned = changed(encoded, permuted)
    assert torch.isclose(loss_of(METHODS[name], turned), loss_of(METHODS[name], encoded), rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@several
@given(encoded=batches)
def test_what_is_not_there_changes_nothing_and_is_not_learnt(name: str, encoded: Features) -> None:
    """Neither what stands in its place nor how much of it there is."""
    method = METHODS[name]
    other = made_up(7, *encoded.negative_mask.shape)

    def filled(e: Features) -> dict[str, torch.Tensor]:
        gone, behind = ~encoded.negative_mask, torch.nn.functional.pad(~encoded.negative_mask, (1, 0))
        found = {}
        for field in ("negative_texts", "negative_images"):
            found[field] = torch.where(gone[..., None], getattr(other, field), getattr(e, field))
        found["negative_types"] = torch.where(gone, other.negative_types, e.negative_types)
        found["words"] = torch.where(behind[..., None, None], other.words, e.words)
        found["paraphrases"] = torch.where(encoded.paraphrased[:, None], e.paraphrases, other.paraphrases)
        for field in ("phrases", "foils"):
            values = getattr(e, field), getattr(other, field)
            found[field] = torch.where(encoded.phrase_mask[..., None], *values)
        return found

    expected = loss_of(method, encoded)
    assert torch.equal(loss_of(method, changed(encoded, filled)), expected)
    learnt = {
        f: getattr(encoded, f).clone().requires_grad_()
        for f in ("negative_texts", "negative_images", "paraphrases", "phrases", "foils")
    }
    found = loss_of(method, replace(encoded, **learnt))
    gradients = (
        torch.autograd.grad(found, list(learnt.values()), allow_unused=True, materialize_grads=True)
        if found.requires_grad
        else []
    )
    gone = [~encoded.negative_mask, ~encoded.negative_mask, ~encoded.paraphrased, *2 * [~encoded.phrase_mask]]
    for gradient, rows in zip(gradients, gone, strict=bool(gradients)):
        assert torch.isfinite(gradient).all()
        assert (gradient[rows] == 0).all()


@pytest.mark.parametrize("name", METHODS)
@several
@given(encoded=batches, seed=st.integers(0, 100))
def test_all_vectors_may_be_turned_together(name: str, encoded: Features, seed: int) -> None:
    d = encoded.image_features.shape[-1]
    generator = torch.Generator().manual_seed(seed)
    rotation, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    vectors = [
        "image_features",
        "text_features",
        "negative_texts",
        "negative_images",
        "paraphrases",
        "patches",
        "words",
        "phrases",
        "foils",
    ]
    turned = changed(encoded, lambda e: {field: getattr(e, field) @ rotation for field in vectors})
    assert torch.isclose(loss_of(METHODS[name], turned), loss_of(METHODS[name], encoded), rtol=1e-8)


@pytest.mark.parametrize("name", METHODS)
@several
@given(encoded=batches, factor=st.floats(0.5, 3))
def test_patches_and_words_count_by_their_directions_alone_and_lengths_of_words_not_at_all(
    name: str, encoded: Features, factor: float
) -> None:
    longer = replace(encoded, words=factor * encoded.words, patches=factor * encoded.patches)
    assert torch.isclose(loss_of(METHODS[name], longer), loss_of(METHODS[name], encoded), rtol=1e-8)


@pytest.mark.parametrize("name", sorted({*METHODS} - {"siglip", "c2lip", "sentence_transformers"}))
@several
@given(encoded=batches)
def test_at_scale_0_all_columns_are_alike(name: str, encoded: Features) -> None:
    """So that the contrastive part is the logarithm of their number; a vector is then nothing that could change it."""
    flat = changed(encoded, lambda e: {"logit_scale": e.logit_scale * 0})
    other = made_up(5, *encoded.negative_mask.shape)
    moved = changed(
        flat, lambda e: {"image_features": other.image_features, "negative_images": other.negative_images}
    )
    if name == "degla":  # its distance to the teacher, the same for both, is of vectors
        moved = replace(moved, teacher=replace(moved.teacher, image_features=other.image_features))
        flat = replace(flat, teacher=replace(flat.teacher, image_features=flat.image_features))
    assert torch.isclose(loss_of(METHODS[name], moved), loss_of(METHODS[name], flat), rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_captions_of_one_image_are_no_negatives_of_each_other(name: str) -> None:
    """Of two rows of one image, neither is pushed from the other's caption."""
    encoded = made_up(1, shared=False)
    encoded = replace(encoded, image_ids=torch.tensor([1, 1, 2, 3]))
    texts = encoded.text_features.clone().requires_grad_()
    again = replace(encoded, text_features=texts, image_features=encoded.image_features.clone())
    loss = loss_of(METHODS[name], again, step=1)
    apart = loss_of(METHODS[name], replace(again, image_ids=torch.arange(4)), step=1)
    assert apart > loss


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_without_a_single_negative_or_paraphrase_has_a_finite_loss(name: str) -> None:
    encoded = made_up(2, missing=1.1)
    assert not encoded.negative_mask.any()
    assert torch.isfinite(loss_of(METHODS[name], encoded))
