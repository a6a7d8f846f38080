"""Each method's loss is its published formula, written here one pair at a time in plain numbers."""

from __future__ import annotations

from math import exp, log, log1p, sqrt
from types import SimpleNamespace

import pytest
import torch
from training_encodings import KINDS, loss_of, made_up

from caramel.registry import METHODS

SEEDS = range(6)


def dot(a, b) -> float:
    return sum(p * q for p, q in zip(a, b, strict=True))


def plain(encoded) -> SimpleNamespace:
    """Return the encoding as lists of numbers."""
    return SimpleNamespace(
        **{
            name: value.tolist() if isinstance(value, torch.Tensor) else value and plain(value)
            for name, value in vars(encoded).items()
        }
    )


def negatives(e) -> list:
    """The hard negatives of all rows that there are: (row, place, vector)."""
    return [
        (i, k, h)
        for i, row in enumerate(e.negative_texts)
        for k, h in enumerate(row)
        if e.negative_mask[i][k]
    ]


def x(queries, keys, scale, names, others=(), rows=None, keyed=None) -> float:
    """X(queries → keys ⊕ others): names say which rows show one image."""
    rows = range(len(queries)) if rows is None else rows
    keyed = range(len(keys)) if keyed is None else keyed
    total = 0.0
    for i in rows:
        allowed = [j for j in keyed if j == i or names[j] != names[i]]
        below = sum(exp(scale * dot(queries[i], keys[j])) for j in allowed)
        below += sum(exp(scale * dot(queries[i], other)) for other in others)
        total -= log(exp(scale * dot(queries[i], keys[i])) / below)
    return total / max(1, len(rows))


def neg(e) -> float:
    there = [h for _, _, h in negatives(e)]
    to_text = x(e.image_features, e.text_features, e.logit_scale, e.image_ids, there)
    return (to_text + x(e.text_features, e.image_features, e.logit_scale, e.image_ids)) / 2


def infonce(e, step) -> float:
    return (
        x(e.image_features, e.text_features, e.logit_scale, e.image_ids)
        + x(e.text_features, e.image_features, e.logit_scale, e.image_ids)
    ) / 2


def siglip(e, step) -> float:
    n, total = len(e.image_features), 0.0
    for i in range(n):
        for j in range(n):
            if i != j and e.image_ids[i] == e.image_ids[j]:
                continue
            z = 1 if i == j else -1
            total += log1p(
                exp(-z * (e.logit_scale * dot(e.image_features[i], e.text_features[j]) + e.logit_bias))
            )
    return total / n


def trohn_text(e, step) -> float:
    return neg(e)


def trohn_img(e, step) -> float:
    there = negatives(e)
    images = e.image_features + [e.negative_images[i][k] for i, k, _ in there]
    texts = e.text_features + [h for _, _, h in there]
    names = e.image_ids + [e.negative_image_ids[i][k] for i, k, _ in there]
    return (x(images, texts, e.logit_scale, names) + x(texts, images, e.logit_scale, names)) / 2


def negative_images(e, step) -> float:
    there = [e.negative_images[i][k] for i, k, _ in negatives(e)]
    to_image = x(e.text_features, e.image_features, e.logit_scale, e.image_ids, there)
    return (x(e.image_features, e.text_features, e.logit_scale, e.image_ids) + to_image) / 2


def ce_clip(e, step) -> float:
    there, n, k = negatives(e), len(e.image_features), len(e.negative_mask[0])
    imc = cmr = 0.0
    for i in range(n):
        positive = exp(e.logit_scale * dot(e.image_features[i], e.text_features[i]))
        imc -= (
            log(
                positive
                / (positive + sum(exp(e.logit_scale * dot(e.text_features[i], h)) for _, _, h in there))
            )
            / n
        )
    for i, place, h in there:
        over = (
            e.state[e.negative_types[i][place]]
            + e.logit_scale * dot(e.image_features[i], h)
            - e.logit_scale * dot(e.image_features[i], e.text_features[i])
        )
        cmr += max(0.0, over) / (n * k)
    return neg(e) + 0.3 * imc + 0.2 * cmr


def triplet_clip(e, step) -> float:
    there = negatives(e)
    images, texts = [e.negative_images[i][k] for i, k, _ in there], [h for _, _, h in there]
    names = [e.negative_image_ids[i][k] for i, k, _ in there]
    to_text = x(images, texts, e.logit_scale, names, e.text_features)
    return neg(e) + (to_text + x(texts, images, e.logit_scale, names)) / 2


def calibrated(logits: list[list[float]]) -> float:
    """The mean over rows of more than one logit, the first of the caption."""
    rows = [row for row in logits if len(row) > 1]
    total = 0.0
    for row in rows:
        below = sum(map(exp, row))
        for place, logit in enumerate(row):
            share = 0.02 / len(row)
            q, p = (1 - 0.02 + share if place == 0 else share), exp(logit) / below
            total += q * (1 - p) ** 2 * -log(p)
    return total / max(1, len(rows))


def unit(v) -> list[float]:
    return [value / sqrt(dot(v, v)) for value in v]


def similarity(patches, words, is_word, scale) -> float:
    total = 0.0
    for word, counts in zip(words, is_word, strict=True):
        if counts:
            raw = [dot(word, patch) for patch in patches]
            raw = [(value - min(raw)) / (max(raw) - min(raw)) for value in raw]
            seen = [
                sum(w / sum(raw) * patch[c] for w, patch in zip(raw, patches, strict=True))
                for c in range(len(word))
            ]
            total += exp(scale * dot(unit(seen), unit(word)))
    return log(total)


def fsc_clip(e, step) -> float:
    whole, local = [], []
    for i, image in enumerate(e.image_features):
        there = [k for k, has in enumerate(e.negative_mask[i]) if has]
        texts = [e.text_features[i], *(e.negative_texts[i][k] for k in there)]
        whole.append([e.logit_scale * dot(image, text) for text in texts])
        local.append(
            [
                similarity(e.patches[i], e.words[i][k], e.is_word[i][k], e.logit_scale)
                for k in (0, *(k + 1 for k in there))
            ]
        )
    return infonce(e, step) + 0.5 * calibrated(whole) + 0.2 * calibrated(local)


def degla(e, step) -> float:
    n, igc, tgc, rows = (
        len(e.image_features),
        0.0,
        0.0,
        [i for i, has in enumerate(e.negative_mask) if any(has)],
    )
    for i in rows:
        own = [h for j, _, h in negatives(e) if j == i]
        first = exp(e.logit_scale * dot(e.image_features[i], e.text_features[i]))
        igc -= log(first / (first + sum(exp(e.logit_scale * dot(e.image_features[i], h)) for h in own)))
        first = exp(10 * dot(e.text_features[i], e.teacher.text_features[i]))
        tgc -= log(first / (first + sum(exp(10 * dot(e.text_features[i], h)) for h in own)))
    pairs = [
        *zip(e.image_features, e.teacher.image_features, strict=True),
        *zip(e.text_features, e.teacher.text_features, strict=True),
    ]
    pairs += [(h, e.teacher.negative_texts[i][k]) for i, k, h in negatives(e)]
    distance = sum((p - q) ** 2 for a, b in pairs for p, q in zip(a, b, strict=True))
    return neg(e) + 0.1 * (igc + tgc) / max(1, len(rows)) + 0.005 * distance * 256 / n


def clic(e, step) -> float:
    first = infonce(e, step)
    if step % 2 == 1:
        return first
    has = [i for i, there in enumerate(e.paraphrased) if there]
    to_second = x(e.image_features, e.paraphrases, e.logit_scale, e.image_ids, rows=has, keyed=has)
    second = (to_second + x(e.paraphrases, e.image_features, e.logit_scale, e.image_ids, rows=has)) / 2
    over = [
        log1p(exp(e.logit_scale * (dot(e.image_features[i], h) - dot(e.image_features[i], caption))))
        for i, _, h in negatives(e)
        for caption in [e.text_features[i], *([e.paraphrases[i]] if i in has else [])]
    ]
    near = [sum((p - q) ** 2 for p, q in zip(e.text_features[i], e.paraphrases[i], strict=True)) for i in has]
    return 0.5 * (first + second) / 2 + 0.5 * sum(over) / max(1, len(over)) + sum(near) / max(1, len(near))


def read(e, step) -> float:
    has = [i for i, there in enumerate(e.paraphrased) if there]
    return neg(e) + 0.5 * x(e.paraphrases, e.text_features, e.logit_scale, e.image_ids, rows=has)


def two_captions(e, step) -> float:
    has, there = (
        [i for i, paraphrased in enumerate(e.paraphrased) if paraphrased],
        [h for _, _, h in negatives(e)],
    )
    to_text = x(e.image_features, e.paraphrases, e.logit_scale, e.image_ids, there, rows=has, keyed=has)
    return (
        neg(e) + (to_text + x(e.paraphrases, e.image_features, e.logit_scale, e.image_ids, rows=has)) / 2
    ) / 2


def sentence_transformers(e, step) -> float:
    has = [i for i, paraphrased in enumerate(e.paraphrased) if paraphrased]
    there = [h for _, _, h in negatives(e)]
    first = x(e.image_features, e.text_features, 20, e.image_ids, there)
    return (first + x(e.image_features, e.paraphrases, 20, e.image_ids, there, rows=has, keyed=has)) / 2


def log_sigmoid(value) -> float:
    return -log1p(exp(-value))


def concepts(e, phrases, cosine) -> float:
    """Return C: the loss of all images with the phrases (row, vector); ``cosine`` is that of an image and a phrase."""
    total = 0.0
    for i in range(len(e.image_features)):
        for row, phrase in phrases:
            if i == row or e.image_ids[i] != e.image_ids[row]:
                z = 1 if i == row else -1
                total -= log_sigmoid(z * (e.logit_scale * cosine(i, phrase) + e.logit_bias))
    return total / max(1, len(phrases))


def c2lip(e, step) -> float:
    phrases = [
        (i, c) for i, row in enumerate(e.phrases) for c, has in zip(row, e.phrase_mask[i], strict=True) if has
    ]

    def attended(i, phrase) -> float:
        patches = [unit(patch) for patch in e.patches[i]]
        weights = [exp(dot(phrase, patch)) for patch in patches]
        pooled = [
            sum(w * patch[c] for w, patch in zip(weights, patches, strict=True)) / sum(weights)
            for c in range(len(phrase))
        ]
        return dot(unit(pooled), phrase)

    whole = concepts(e, phrases, lambda i, phrase: dot(e.image_features[i], phrase))
    return siglip(e, step) + whole + 0.01 * concepts(e, phrases, attended)


def cs_clip(e, step) -> float:
    total, most = 0.0, len(e.phrase_mask[0])
    for k in range(most):
        rows = [i for i, row in enumerate(e.phrase_mask) if row[k]]
        units = [row[k] for row in e.phrases]
        for i in rows:
            keyed = [j for j in rows if j == i or e.image_ids[j] != e.image_ids[i]]
            own = exp(e.logit_scale * dot(e.image_features[i], units[i]))
            to_unit = sum(exp(e.logit_scale * dot(e.image_features[i], units[j])) for j in keyed)
            to_unit += exp(e.logit_scale * dot(e.image_features[i], e.foils[i][k]))
            from_unit = sum(exp(e.logit_scale * dot(units[i], e.image_features[j])) for j in keyed)
            total -= (log(own / to_unit) + log(own / from_unit)) / 2 / len(rows) / most
    return neg(e) + 0.5 * total


BY_HAND = {
    "infonce": infonce,
    "siglip": siglip,
    "negclip": trohn_text,
    "trohn_text": trohn_text,
    "trohn_img": trohn_img,
    "negative_images": negative_images,
    "shuffled": trohn_img,
    "pairs_unpaired": infonce,
    "ce_clip": ce_clip,
    "triplet_clip": triplet_clip,
    "fsc_clip": fsc_clip,
    "degla": degla,
    "clic": clic,
    "clic_joined": clic,
    "read": read,
    "two_captions": two_captions,
    "sentence_transformers": sentence_transformers,
    "c2lip": c2lip,
    "cs_clip": cs_clip,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("name", METHODS)
def test_a_loss_is_its_published_formula(name: str, missing: float, seed: int) -> None:
    encoded = made_up(seed, missing=missing)
    for step in (0, 1):
        found = float(loss_of(METHODS[name], encoded, step))
        assert found == pytest.approx(BY_HAND[name](plain(encoded), step), rel=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_margins_of_ce_clip_are_how_far_its_positives_lie_above_each_kind_of_negative(seed: int) -> None:
    encoded = made_up(seed, n=6)
    e = plain(encoded)
    positive = [
        e.logit_scale * dot(image, text)
        for image, text in zip(e.image_features, e.text_features, strict=True)
    ]
    expected = []
    for kind in range(KINDS):
        of_kind = [
            e.logit_scale * dot(e.image_features[i], h)
            for i, k, h in negatives(e)
            if e.negative_types[i][k] == kind
        ]
        gap = sum(positive) / 6 - sum(of_kind) / len(of_kind) if of_kind else e.state[kind]
        expected.append(min(max(gap, 0.0), 10.0))
    method = METHODS["ce_clip"]
    assert method.state.after(encoded, method.weights).tolist() == pytest.approx(expected, rel=1e-10)
    assert method.state.start(KINDS).tolist() == [0.0] * KINDS


def test_patches_that_are_all_alike_have_the_same_weight() -> None:
    from dataclasses import replace

    encoded = made_up(0)
    same = replace(encoded, patches=encoded.patches[:, :1].expand_as(encoded.patches).contiguous())
    assert torch.isfinite(loss_of(METHODS["fsc_clip"], same))
