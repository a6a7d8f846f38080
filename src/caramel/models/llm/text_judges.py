"""Judge texts of a language model by classifiers of transformers: entailment of two texts, grammar of one.

The relevant label is found by its name in the model's config, because its index varies: models of natural
language inference order their three labels differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from caramel.errors import BackendError
from caramel.interfaces.model import Identity
from caramel.interfaces.text_judge import TextJudgeSpec
from caramel.models.devices import resolve_device
from caramel.models.transformers.transformers_files import (
    build_identity,
    list_checkpoint_problems,
    load_pretrained,
    load_tokenizer,
    read_config,
)

# Judgement -> names of its label, in lower case. Classifiers of CoLA without names of labels, such as
# textattack/distilbert-base-uncased-CoLA, use the second label for acceptable sentences.
LABELS = {"entailment": ("entailment",), "grammar": ("acceptable", "grammatical", "label_1")}
EXAMPLES = {
    "entailment": "FacebookAI/roberta-large-mnli",
    "grammar": "textattack/distilbert-base-uncased-CoLA",
}
UNNAMED = {"0": "LABEL_0", "1": "LABEL_1"}  # transformers' names of labels that a config does not name
BATCH = 64
LENGTH = 512  # largest number of tokens


class ClassifierJudge:
    """A ``TextJudge`` over a sequence classifier, in single precision.

    Args:
        model: in evaluation mode on its device.
        tokenizer: the model's tokenizer.
        label: index of the label whose probability is returned.
    """

    def __init__(self, model: Any, tokenizer: Any, label: int) -> None:
        self._model, self._tokenizer, self._label = model, tokenizer, label
        room = getattr(model.config, "max_position_embeddings", None) or LENGTH
        self._length = min(LENGTH, room, tokenizer.model_max_length)

    @property
    def identity(self) -> Identity:
        """Return what determines the probabilities: weights, tokenizer, label and the software."""
        device = str(self._model.device)
        further = {"label": self._label, "length": self._length}
        return build_identity(
            "classifier", self._model, [self._tokenizer], precision="fp32", device=device, **further
        )

    def predict_probabilities(self, rows: Sequence[tuple[str, ...]]) -> list[float]:
        """Return the softmax probability of the label for each row; long texts are truncated."""
        import torch

        probabilities: list[float] = []
        for start in range(0, len(rows), BATCH):
            texts = [list(side) for side in zip(*rows[start : start + BATCH], strict=True)]
            cut = {"padding": True, "truncation": True, "max_length": self._length, "return_tensors": "pt"}
            inputs = {
                name: part.to(self._model.device) for name, part in self._tokenizer(*texts, **cut).items()
            }
            with torch.inference_mode():
                probabilities += self._model(**inputs).logits.float().softmax(-1)[:, self._label].tolist()
        return probabilities


def _load_judge(what: str, target: str) -> ClassifierJudge:
    """Return the judge of a folder.

    Raises:
        BackendError: the model is missing or invalid, lacks the label, or returns NaN.
    """
    from transformers import AutoModelForSequenceClassification

    label = _find_label(what, target)
    model = load_pretrained(AutoModelForSequenceClassification, target, device=resolve_device("auto"))
    judge = ClassifierJudge(model, load_tokenizer(target), label)
    (tried,) = judge.predict_probabilities([("A dog runs.",) * (2 if what == "entailment" else 1)])
    if tried != tried:
        raise BackendError(f"{target!r} returns NaN for a text: its weights are damaged.")
    return judge


def _find_label(what: str, target: str) -> int:
    """Return the index of the relevant label, from the config; errors are those of ``_load_judge``."""
    stated = read_config(target).get("id2label") or UNNAMED
    names = (
        [str(stated.get(str(index))).lower() for index in range(len(stated))]
        if isinstance(stated, dict)
        else []
    )
    matches = [index for index, name in enumerate(names) if name in LABELS[what]]
    if len(matches) != 1 or (names[matches[0]] == "label_1" and len(names) != len(UNNAMED)):
        raise BackendError(
            f"{target!r} has the labels {names}, but a model that judges {what} needs a label "
            f"{LABELS[what][0]!r} ('id2label' in its config.json). Use a model such as {EXAMPLES[what]}."
        )
    return int(matches[0])


def _list_problems(what: str, target: str) -> list[str]:
    """Return the reasons why the judge of a folder cannot be loaded, without reading its weights."""
    lacking = list_checkpoint_problems(target, images=False)
    if not lacking:
        try:
            _find_label(what, target)
        except BackendError as error:
            return [str(error)]
    return lacking


def _create_spec(what: str) -> TextJudgeSpec:
    return TextJudgeSpec(what, partial(_load_judge, what), partial(_list_problems, what))


ENTAILMENT = _create_spec("entailment")
GRAMMAR = _create_spec("grammar")
