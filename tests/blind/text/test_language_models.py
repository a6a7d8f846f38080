from pathlib import Path

import numpy as np
import pytest
import small_language_models as small
from small_language_models import TEXTS

from caramel.blind.scorer_specs import load_scorer
from caramel.blind.scorers import DECIMALS, compute_percentile_ranks
from caramel.blind.text import language_models, text_embedding_cache
from caramel.blind.text.text_models import open_model
from caramel.errors import BackendError
from caramel.utils.resampling import CrossValidation

FOLDERS = {
    "vera": small.vera_folder,
    "cola": small.cola_folder,
    "causal_lm": small.gpt2_folder,
    "masked_lm": small.masked_folder,
}
KINDS = list(FOLDERS)


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    return {kind: make(tmp_path_factory.mktemp(kind)) for kind, make in FOLDERS.items()}


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def both(scores, positives: list[str], negatives: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return scores(positives, negatives, CrossValidation([str(i) for i in range(len(positives))], 5, 3))


def scored(kind: str, folder: Path, texts: list[str]) -> np.ndarray:
    return both(load_scorer(f"{kind}:{folder}"), texts, texts)[0]


def published_vera(folder: Path, text: str) -> float:
    """Compute as Vera's model card does: one text, no padding, no mask."""
    import torch
    from transformers import AutoTokenizer, T5EncoderModel

    model = T5EncoderModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    linear = torch.nn.Linear(model.shared.embedding_dim, 1)
    linear.weight = torch.nn.Parameter(model.shared.weight[32099, :].unsqueeze(0))
    linear.bias = torch.nn.Parameter(model.shared.weight[32098, 0].unsqueeze(0))
    ids = tokenizer([text], return_tensors="pt", truncation=True, max_length=128).input_ids
    with torch.no_grad():
        last = model(ids).last_hidden_state[0, -1, :]
        return float((linear(last) / model.shared.weight[32097, 0].item()).sigmoid())


def published_cola(folder: Path, text: str) -> float:
    """Compute as SugarCrepe does: the pipeline's score of LABEL_1."""
    from transformers import pipeline

    (found,) = pipeline("text-classification", model=str(folder), device="cpu")([text])
    return found["score"] if found["label"] == "LABEL_1" else 1 - found["score"]


def plain_causal(folder: Path, text: str) -> float:
    """Minus the model's own loss on the text behind the token that begins it."""
    import torch
    from transformers import AutoTokenizer, GPT2LMHeadModel

    tokenizer, model = AutoTokenizer.from_pretrained(folder), GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]])
    if ids.shape[1] == 1:
        return -np.inf
    with torch.no_grad():
        return -float(model(ids, labels=ids).loss)


def plain_masked(folder: Path, text: str) -> float:
    """Mask one token at a time, one forward pass each."""
    import torch
    from transformers import AutoTokenizer, BertForMaskedLM

    tokenizer, model = AutoTokenizer.from_pretrained(folder), BertForMaskedLM.from_pretrained(folder).eval()
    logs = []
    for at in range(1, len(tokenizer(text)["input_ids"]) - 1):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        token, ids[0, at] = int(ids[0, at]), tokenizer.mask_token_id
        with torch.no_grad():
            logs.append(float(model(ids).logits[0, at].softmax(-1)[token].log()))
    return float(np.mean(logs)) if logs else -np.inf


@pytest.mark.parametrize(("kind", "oracle"), [("vera", published_vera), ("cola", published_cola)])
def test_probabilities_are_those_of_the_published_code_one_text_at_a_time(kind, oracle, folders):
    expected = [oracle(folders[kind], text) for text in TEXTS]
    assert scored(kind, folders[kind], TEXTS) == pytest.approx(expected, abs=3e-6)
    assert np.ptp(expected) > 0.05


@pytest.mark.parametrize(("kind", "oracle"), [("causal_lm", plain_causal), ("masked_lm", plain_masked)])
def test_likelihoods_are_those_of_one_text_at_a_time(kind, oracle, folders):
    expected = np.array([oracle(folders[kind], text) for text in TEXTS])
    found = open_model(model_type=kind, target=str(folders[kind])).values(TEXTS)
    assert found == pytest.approx(expected, abs=1e-5)
    assert np.ptp(expected[np.isfinite(expected)]) > 0.05
    # Rounded as where they are ranked: the oracle's last bits differ from a batch's.
    assert scored(kind, folders[kind], TEXTS).tolist() == compute_percentile_ranks(expected.round(4)).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_gives_what_one_by_one_gives(kind, folders):
    values = open_model(model_type=kind, target=str(folders[kind])).values
    alone = np.concatenate([values([text]) for text in TEXTS])
    assert values(TEXTS) == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_of_a_pair_get_their_own_texts_score(kind, folders):
    one, other = TEXTS[:4], TEXTS[2:6]
    positive, negative = both(load_scorer(f"{kind}:{folders[kind]}"), one, other)
    assert positive[2:].tolist() == negative[:2].tolist()
    assert ((positive >= 0) & (positive <= 1)).all()
    assert (positive == positive.round(DECIMALS)).all()


@pytest.mark.parametrize("kind", ["cola", "masked_lm"])
def test_texts_that_are_equal_to_the_tokenizer_tie(kind, folders):
    assert TEXTS[1].lower() == TEXTS[4].lower()
    scores = scored(kind, folders[kind], TEXTS)
    assert scores[1] == scores[4]


@pytest.mark.parametrize("kind", ["causal_lm", "masked_lm"])
def test_an_empty_text_is_the_least_likely(kind, folders):
    scores = scored(kind, folders[kind], TEXTS)
    assert scores[TEXTS.index("")] == 0.5 / len(TEXTS) == scores.min()


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_longer_than_the_model_has_room_for_is_cut(kind, folders):
    long = ["the dog runs and " * 60, "the dog runs and " * 70]
    scores = scored(kind, folders[kind], long)
    assert scores[0] == scores[1]


def test_the_temperature_of_vera_divides_its_logit(tmp_path):
    plain, cool = (
        scored("vera", small.vera_folder(tmp_path / str(t), temperature=t), TEXTS) for t in (1.0, 4.0)
    )
    logit = np.log(plain / (1 - plain))
    assert np.log(cool / (1 - cool)) == pytest.approx(logit / 4, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_have_no_scores(kind, folders):
    assert [len(side) for side in both(load_scorer(f"{kind}:{folders[kind]}"), [], [])] == [0, 0]


def test_every_distinct_text_is_scored_once_whatever_is_asked_later(folders, monkeypatch):
    work, seen = language_models.scored_table, []

    def scored_table(texts, **settings):
        seen.extend(texts)
        return work(texts, **settings)

    monkeypatch.setattr(language_models, "scored_table", scored_table)
    cola = load_scorer(f"cola:{folders['cola']}")
    first = both(cola, TEXTS[:3], TEXTS[2:5])
    second = both(cola, TEXTS[:4], TEXTS[3:7])
    assert sorted(seen) == sorted(set(TEXTS[:7]))
    assert first[0].tolist() == second[0][:3].tolist()


def test_an_interrupted_run_goes_on_where_it_stopped(folders, monkeypatch):
    work, seen = language_models.scored_table, []

    def scored_table(texts, **settings):
        if len(seen) == 2:
            seen.append("stopped")
            raise KeyboardInterrupt
        seen.append(texts)
        return work(texts, **settings)

    whole = scored("masked_lm", folders["masked_lm"], TEXTS)
    monkeypatch.setattr(language_models, "scored_table", scored_table)
    monkeypatch.setattr(text_embedding_cache, "SHARD", 3)
    monkeypatch.setattr(text_embedding_cache, "SCORED", Path("anew"))
    with pytest.raises(KeyboardInterrupt):
        scored("masked_lm", folders["masked_lm"], TEXTS)
    assert scored("masked_lm", folders["masked_lm"], TEXTS).tolist() == whole.tolist()
    parts = [part for part in seen if part != "stopped"]
    assert sorted(text for part in parts for text in part) == sorted(TEXTS)
    assert [len(max(part, key=len)) for part in parts] == sorted(len(max(part, key=len)) for part in parts)


def test_other_weights_never_take_what_these_have_scored(tmp_path):
    folder = small.vera_folder(tmp_path / "model", temperature=1.0)
    first = scored("vera", folder, TEXTS)
    small.vera_folder(folder, temperature=4.0)
    open_model.cache_clear()
    assert scored("vera", folder, TEXTS).tolist() != first.tolist()


def test_a_t5_that_is_not_vera_is_refused(tmp_path):
    short = small.vera_folder(tmp_path / "short", rows=100)
    with pytest.raises(BackendError, match="not Vera: rows 32097 to 32099 of its 100"):
        scored("vera", short, TEXTS)
    unlearnt = small.vera_folder(tmp_path / "negative", temperature=-1.0)
    with pytest.raises(BackendError, match="temperature above 0"):
        scored("vera", unlearnt, TEXTS)


@pytest.mark.parametrize(
    "config", [{"num_labels": 3}, {"id2label": {0: "acceptable", 1: "unacceptable"}, "label2id": {}}]
)
def test_a_classifier_whose_second_label_is_not_acceptable_is_refused(config, tmp_path):
    folder = small.cola_folder(tmp_path / "model", **config)
    with pytest.raises(BackendError, match="the second is for acceptable sentences"):
        scored("cola", folder, TEXTS)


def test_weights_without_the_head_are_refused(tmp_path):
    folder = small.encoder_folder(tmp_path / "model")
    with pytest.raises(BackendError, match="weights are missing"):
        scored("cola", folder, TEXTS)
    with pytest.raises(BackendError, match="weights are missing"):
        scored("masked_lm", folder, TEXTS)


def test_a_causal_model_is_no_masked_one(folders):
    with pytest.raises(BackendError):
        scored("masked_lm", folders["causal_lm"], TEXTS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_without_a_checkpoint_is_an_error_before_anything_is_scored(kind, tmp_path):
    with pytest.raises(BackendError, match=rf"{kind}:.*no weights.*save_pretrained"):
        load_scorer(f"{kind}:{tmp_path}")


def test_a_broken_file_of_the_store_is_named_and_made_again(folders, capsys):
    once = scored("cola", folders["cola"], TEXTS)
    (file,) = Path("work/scorers").rglob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(b"PAR1 broken")
    assert scored("cola", folders["cola"], TEXTS).tolist() == once.tolist()
    assert file.name in capsys.readouterr().err
    assert file.read_bytes() == whole


@pytest.mark.parametrize("settings", [{"add_bos_token": True}, {"bos_token": None}])
def test_a_text_has_one_token_before_it_whatever_the_tokenizer_adds(settings, folders, tmp_path):
    from transformers import AutoTokenizer

    folder = small.gpt2_folder(tmp_path / "model", **settings)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.bos_token_id is None or tokenizer("runs")["input_ids"][0] == tokenizer.bos_token_id
    expected = open_model(model_type="causal_lm", target=str(folders["causal_lm"])).values(TEXTS)
    assert open_model(model_type="causal_lm", target=str(folder)).values(TEXTS).tolist() == expected.tolist()


def test_a_causal_model_without_a_token_to_begin_with_is_refused(tmp_path):
    folder = small.gpt2_folder(tmp_path / "model", bos_token=None, eos_token=None)
    with pytest.raises(BackendError, match="neither a beginning-of-text token nor an end-of-text token"):
        scored("causal_lm", folder, TEXTS)
