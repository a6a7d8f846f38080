"""Upper layers on kept states give what the whole model gives, whatever its layers take and return."""

import pytest
import torch
import transformers

from caramel.blind.text.upper_layers import UpperLayers

ROWS = [(5, 6, 7), (8, 9, 10, 11, 12, 13, 14, 15), (5, 6, 7, 8, 9), (5, 6, 7)]
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
WORDS = {"vocab_size": 100, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}


def build(name: str, **config):
    torch.manual_seed(0)
    made = getattr(transformers, f"{name}Config")(**WORDS, **(config or SIZES))
    return getattr(transformers, f"{name}Model")(made).eval()


GPT2 = {"n_embd": 32, "n_layer": 4, "n_head": 4}
SLIDING = {**SIZES, "num_key_value_heads": 4, "use_sliding_window": True, "sliding_window": 4}
MODELS = {
    "Bert": {},
    "MPNet": {},  # its layers return tuples
    "DebertaV2": {},  # of two
    "Llama": {},
    "GPT2": GPT2,
    "Qwen2": {**SLIDING, "max_window_layers": 2},  # masks depend on the layer's number
}


@pytest.mark.parametrize("name", MODELS)
def test_kept_states_of_the_lower_layers_change_no_output(name):
    model = build(name, **MODELS[name])
    whole, upper = (UpperLayers(model, n, pad=0, device="cpu", precision="fp32") for n in (4, 2))
    with torch.no_grad():
        expected, mask = whole.forward(ROWS)
        upper.keep_states(ROWS)
        states, _ = upper.forward(ROWS)
    assert len(upper.trained) == 2
    torch.testing.assert_close(states * mask[:, :, None], expected * mask[:, :, None], rtol=1e-4, atol=1e-5)


def test_a_model_that_shares_one_layer_is_trained_as_a_whole():
    model = build("Albert", **SIZES, embedding_size=16)
    upper = UpperLayers(model, 2, pad=0, device="cpu", precision="fp32")
    assert upper.trained == [model]
    assert upper.forward(ROWS)[0].shape == (4, 8, 32)


def test_the_lower_layers_run_once_for_each_text():
    model = build("Bert")
    upper = UpperLayers(model, 2, pad=0, device="cpu", precision="fp32")
    upper.keep_states(ROWS)
    calls = []
    model.encoder.layer[0].register_forward_hook(lambda *_: calls.append(1))
    original = type(model.encoder.layer[0]).forward
    upper.keep_states(ROWS)
    assert not calls
    assert model.encoder.layer[0].forward.__func__ is original  # nothing stays replaced


def test_gradients_reach_the_upper_layers_alone():
    model = build("Bert")
    upper = UpperLayers(model, 1, pad=0, device="cpu", precision="fp32")
    upper.keep_states(ROWS)
    upper.forward(ROWS)[0].sum().backward()
    trained = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert trained
    assert all(name.startswith("encoder.layer.3.") for name in trained)


def test_states_that_are_too_many_are_dropped(monkeypatch):
    from caramel.blind.text import upper_layers

    monkeypatch.setattr(upper_layers, "MOST_TOKENS", 10)
    upper = UpperLayers(build("Bert"), 2, pad=0, device="cpu", precision="fp32")
    upper.keep_states(ROWS)
    upper.keep_states([(1, 2, 3)])
    upper.forward([(1, 2, 3)])
    with pytest.raises(KeyError):
        upper.forward(ROWS)
