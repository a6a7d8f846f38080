import threading

import numpy as np
import pytest
import torch
from tiny_clips import CONFIGS, TEXT, TEXTS, build, build_config, roberta_config

from caramel.models.open_clip.text_padding import compute_text_vectors

CAUSAL = ["clip", "resnet", "custom", "custom blocks", "eos"]


def tokens_of(kind, texts=TEXTS):
    from open_clip.tokenizer import SimpleTokenizer

    tokens = SimpleTokenizer(context_length=TEXT["context_length"])(texts)
    if kind == "eos":  # the end token gets the id of the config, so that another token is the highest
        tokens[tokens == 49407] = 3
    return tokens


def lengths_of(kind, tokens):
    end = 3 if kind == "eos" else 49407
    return tokens.eq(end).int().argmax(1) + 1


def columns_seen(model, tokens):
    """Return the vectors and how many columns the text tower's layers were given."""
    seen = []
    tower = model.text if hasattr(model, "text") else model
    layers = getattr(tower.transformer, "resblocks", None)
    first = tower.transformer if layers is None else layers[0].ln_1
    hook = first.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append((args[0] if args else kwargs["input_ids"]).shape[1]),
        with_kwargs=True,
    )
    with torch.inference_mode():
        vectors = compute_text_vectors(model, tokens)
    hook.remove()
    return vectors, seen


@pytest.fixture(scope="module")
def models():
    return {kind: build(kind) for kind in CONFIGS}


@pytest.mark.parametrize("kind", [*CAUSAL, "coca"])
def test_vectors_without_padding_are_those_of_all_columns(kind, models) -> None:
    model, tokens = models[kind], tokens_of(kind)
    with torch.inference_mode():
        whole = model.encode_text(tokens, normalize=True)
        images = torch.nn.functional.normalize(torch.randn(50, 32), dim=-1)
    cut, seen = columns_seen(model, tokens)
    longest = int(lengths_of(kind, tokens).max())
    # CoCa: one column of padding, which its mask leaves in, and the class token.
    assert seen == [longest + 2 if kind == "coca" else longest]
    assert seen[0] < TEXT["context_length"]
    assert float((cut - whole).abs().max()) <= 1e-6
    assert torch.equal((images @ cut.T).argsort(1), (images @ whole.T).argsort(1))
    assert len(torch.unique(whole.round(decimals=3), dim=0)) == len(TEXTS)  # or the orders say nothing


@pytest.mark.parametrize("kind", CAUSAL)
def test_what_stands_after_the_end_token_changes_nothing(kind, models) -> None:
    model, tokens = models[kind], tokens_of(kind)
    filled = tokens.clone()
    after = torch.arange(tokens.shape[1]) >= lengths_of(kind, tokens)[:, None]
    filled[after] = torch.randint(4, 49000, (int(after.sum()),))
    with torch.inference_mode():
        assert torch.equal(
            model.encode_text(filled, normalize=True), model.encode_text(tokens, normalize=True)
        )
    (one, columns), (two, same) = columns_seen(model, filled), columns_seen(model, tokens)
    assert columns == same
    assert torch.equal(one, two)


def test_columns_that_are_left_out_of_coca_change_nothing_and_the_last_one_kept_does(models) -> None:
    model, tokens = build("coca"), tokens_of("coca")
    with torch.inference_mode():
        whole = model.encode_text(tokens)
        longest = int(lengths_of("coca", tokens).max())
        positions = model.text.positional_embedding
        positions[longest + 1 : -1] += 3 * torch.randn_like(positions[longest + 1 : -1])
        assert float((model.encode_text(tokens) - whole).abs().max()) <= 1e-6
        positions[longest] += 3 * torch.randn(32)  # the mask of the released weights is one column late
        assert float((model.encode_text(tokens) - whole).abs().max()) > 1e-3


def test_the_corrected_mask_of_coca_is_followed_as_well() -> None:
    model, tokens = build("coca"), tokens_of("coca")
    with torch.inference_mode():
        before = model.encode_text(tokens)
        model.text.correct_cls_mask = True
        whole = model.encode_text(tokens)
    assert float((whole - before).abs().max()) > 1e-3
    assert float((columns_seen(model, tokens)[0] - whole).abs().max()) <= 1e-6


@pytest.mark.parametrize("kind", [*CAUSAL, "coca"])
def test_texts_that_fill_all_columns_are_not_cut(kind, models) -> None:
    tokens = tokens_of(kind, [TEXTS[1] * 4, "A cup."])
    with torch.inference_mode():
        whole = models[kind].encode_text(tokens, normalize=True)
    cut, seen = columns_seen(models[kind], tokens)
    assert seen == [TEXT["context_length"] + (kind == "coca")]
    assert float((cut - whole).abs().max()) <= 1e-6


@pytest.mark.parametrize("kind", ["siglip", "both ways"])
def test_towers_that_look_at_padding_get_all_columns(kind, models) -> None:
    model, tokens = models[kind], tokens_of(kind)
    vectors, seen = columns_seen(model, tokens)
    assert seen == [TEXT["context_length"]]
    with torch.inference_mode():
        assert torch.equal(vectors, model.encode_text(tokens, normalize=True))
        tokens[0, -2] = 5  # so that to cut would not be exact
        assert float((model.encode_text(tokens, normalize=True)[0] - vectors[0]).abs().max()) > 1e-4


def test_a_causal_tower_pooled_at_its_last_column_gets_all_columns() -> None:
    model = build("custom", text_cfg={**TEXT, "pool_type": "last"})
    assert columns_seen(model, tokens_of("custom"))[1] == [TEXT["context_length"]]


def test_a_tower_of_transformers_gets_all_columns(tmp_path) -> None:
    model = build_config(roberta_config(tmp_path))
    tokens = torch.ones(2, 20, dtype=torch.long)
    tokens[:, :4] = torch.tensor([0, 5, 6, 2])
    vectors, seen = columns_seen(model, tokens)
    assert seen == [20]
    with torch.inference_mode():
        assert torch.equal(vectors, model.encode_text(tokens, normalize=True))


def test_a_class_that_encodes_in_its_own_way_is_asked_itself(models) -> None:
    from open_clip.model import CLIP

    class Other(CLIP):
        def encode_text(self, text, normalize=False):
            return torch.full((len(text), 3), float(text.shape[1]))

    config = CONFIGS["clip"]
    assert compute_text_vectors(Other(**config), tokens_of("clip")).tolist() == [[40.0] * 3] * len(TEXTS)


@pytest.mark.parametrize("kind", ["clip", "custom", "coca"])
def test_gradients_are_those_of_all_columns(kind) -> None:
    def gradients(encode):
        model = build(kind)
        target = torch.linspace(-1, 1, 32)
        encode(model)(tokens_of(kind)).float().mul(target).sum().backward()
        return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}

    ours = gradients(lambda model: lambda tokens: compute_text_vectors(model, tokens))
    theirs = gradients(lambda model: lambda tokens: model.encode_text(tokens, normalize=True))
    assert set(ours) == set(theirs)
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in ours)


@pytest.mark.parametrize("kind", ["clip", "custom", "coca"])
def test_threads_may_share_a_model(kind, models) -> None:
    model = models[kind]
    batches = [tokens_of(kind, [text]) for text in TEXTS]
    tower = model.text if hasattr(model, "text") else model
    mask = tower.attn_mask
    with torch.inference_mode():
        alone = [compute_text_vectors(model, batch) for batch in batches]
    wrong = []

    def work(place):
        with torch.inference_mode():
            for _ in range(10):
                if not torch.equal(compute_text_vectors(model, batches[place]), alone[place]):
                    wrong.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert tower.attn_mask is mask
    assert np.shape(mask)[0] == TEXT["context_length"] + (kind == "coca")


def test_a_token_that_has_the_id_of_padding_is_no_end(models) -> None:
    tokens = tokens_of("clip")
    assert 0 in tokens[2, : int(lengths_of("clip", tokens)[2])].tolist()
    cut, seen = columns_seen(models["clip"], tokens[2:3])
    assert seen == [int(lengths_of("clip", tokens)[2])]
    with torch.inference_mode():
        whole = models["clip"].encode_text(tokens[2:3], normalize=True)
    assert float((cut - whole).abs().max()) <= 1e-6
