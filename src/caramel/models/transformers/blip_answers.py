"""Ask BLIP's question answering (``BlipForQuestionAnswering``) about a caption: how likely, or whether, it answers yes.

    vqascore:FOLDER              log P(yes | image, question) with the question of ``generative``
    yes_no:FOLDER#wording=NAME   1 if the answer is "yes", else 0, with a prompt of SugarCrepe++ (Dumpala et al. 2024,
                                 Table 17). ITT is then a hit if both true captions get a yes and the negative none:
                                 equal answers tie, and a tie is a miss

The answer is what greedy decoding gives. The paper states neither its decoding nor its rule. The question is prepared
as in BLIP's and LAVIS's training (``text_normalization``) and starts with [ENC]; the answer starts with [DEC].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from caramel.errors import BackendError
from caramel.interfaces.model import Family, Floats, Identity, Index
from caramel.models.transformers.local_chooser import WORDING
from caramel.models.transformers.matching_architectures import Architecture, encode_vision, run_blip_text
from caramel.models.transformers.pair_passes import PairPasses
from caramel.models.transformers.text_normalization import BLIP_QUESTION
from caramel.models.transformers.transformers_dual import load_with_processors
from caramel.models.transformers.transformers_files import (
    MODEL_TYPES,
    check_type,
    list_checkpoint_problems,
    read_config,
)

if TYPE_CHECKING:
    import torch

MODEL, ANSWER = "BlipForQuestionAnswering", "yes"
_END = "? Provide 'yes' or 'no' as response"
WORDINGS: Mapping[str, str] = {
    "1a": "Does the following caption match the image: {}" + _END,
    "1b": "Does the caption match the image: {}" + _END,
    "1c": "Do the image and the following caption match: {}" + _END,
    "2a": "Does the caption correctly describe the image: {}" + _END,
    "2b": "Is the caption an accurate description of the image: {}" + _END + ".",
}


class BlipAnswers:
    """A ``Matcher`` over BLIP's question answering.

    Args:
        family: vqascore or yes_no.
        question: the question, with {} for the caption.
        model: a ``BlipForQuestionAnswering``.
        tokenizer: the checkpoint's tokenizer.
        image_processor: the checkpoint's image processor.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16, or ``auto``.
        name: name of the model in tables.

    Raises:
        BackendError: the tokenizer has no token for the answer, or the text encoder no [ENC].
    """

    def __init__(
        self,
        family: str,
        question: str,
        model: Any,
        tokenizer: Any,
        image_processor: Any,
        device: str,
        precision: str,
        name: str,
    ) -> None:
        self.name, self._family, self._question = name, family, question
        answer = tokenizer(ANSWER, add_special_tokens=False)["input_ids"]
        if tokenizer.unk_token_id in answer:
            raise BackendError(
                f"Model {name!r}: its tokenizer does not know the word {ANSWER!r}, so that the model cannot answer with "
                f"it. Use one of BLIP's own checkpoints, such as Salesforce/blip-vqa-base."
            )
        score = _compute_likelihood if family == "vqascore" else _compute_decision
        self._passes = PairPasses(
            Architecture(
                MODEL,
                encode_vision,
                lambda model, inputs: run_blip_text(model, inputs).last_hidden_state,
                lambda model, hidden: score(_decode_answer(model, hidden, answer), answer, model),
            ),
            model,
            tokenizer,
            image_processor,
            device=device,
            precision=precision,
            name=name,
            cleaning=BLIP_QUESTION,
        )

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the scores."""
        return self._passes.build_identity(self._family, prompt=self._question, reply=ANSWER)

    def match_pairs(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> Floats:
        """Return the score of each pair (n,): at most 0 for ``vqascore``, 0 or 1 for ``yes_no``.

        Arguments as in ``interfaces.model.Matcher``.

        Raises:
            DataError: an image does not decode.
        """
        questions = [self._question.format(text) for text in texts]
        return self._passes.compute_rows(images, questions, image_of, text_of, batch_size).astype(np.float64)


def _decode_answer(model: Any, hidden: torch.Tensor, answer: Sequence[int]) -> torch.Tensor:
    """Return the decoder's logits (n, answer + 1, vocabulary) before each token of the answer, and after the last.

    Args:
        model: the model.
        hidden: (n, t, d) states of the questions; the questions of a batch are equally long, so that none is padded.
        answer: tokens of the answer.
    """
    import torch

    given = torch.tensor([model.decoder_start_token_id, *answer], device=hidden.device)
    output = model.text_decoder(
        input_ids=given.expand(len(hidden), -1),
        encoder_hidden_states=hidden,
        encoder_attention_mask=torch.ones(hidden.shape[:2], dtype=torch.int64, device=hidden.device),
        use_cache=False,
    )
    logits: torch.Tensor = output.logits
    return logits


def _compute_likelihood(logits: torch.Tensor, answer: Sequence[int], model: Any) -> torch.Tensor:
    """Return the log-probability (n,) of the answer's tokens, without the token that ends it."""
    import torch

    tokens = torch.tensor(answer, device=logits.device).expand(len(logits), -1)
    log_probs = logits[:, :-1].double().log_softmax(-1)
    return log_probs.gather(2, tokens[..., None])[..., 0].sum(1)


def _compute_decision(logits: torch.Tensor, answer: Sequence[int], model: Any) -> torch.Tensor:
    """Return 1 where greedy decoding gives the answer and then ends, else 0, (n,)."""
    import torch

    wanted = torch.tensor([*answer, model.config.text_config.sep_token_id], device=logits.device)
    return (logits.argmax(-1) == wanted).all(1).float()


def load_blip_answers(
    family: str, question: str, target: str, *, device: str, precision: str, name: str
) -> BlipAnswers:
    """Return the matcher of a folder or of OWNER/REPO; arguments as in ``BlipAnswers``.

    Raises:
        BackendError: it is missing or damaged, or does not answer questions.
    """
    import transformers

    return load_with_processors(
        partial(BlipAnswers, family, question),
        getattr(transformers, MODEL),
        target,
        device=device,
        precision=precision,
        name=name,
    )


def list_blip_problems(target: str) -> list[str]:
    """Return the reasons why a BLIP cannot be loaded to answer questions, without reading its weights."""
    problems = list_checkpoint_problems(target, types=MODEL_TYPES["yes_no"])
    stated = read_config(target).get("architectures") if Path(target).is_dir() and not problems else None
    if isinstance(stated, list) and stated and MODEL not in stated:
        problems = [
            f"{target!r} is a {stated[0]}, which does not answer questions. Use a {MODEL}, such as "
            f"Salesforce/blip-vqa-base."
        ]
    return problems


def _get_question(target: str) -> tuple[str, str]:
    """Return the folder of a target FOLDER#wording=NAME, and its question.

    Raises:
        BackendError: the wording is missing or unknown.
    """
    folder, _, wording = target.partition(WORDING)
    if wording not in WORDINGS:
        raise BackendError(
            f"yes_no:{target} does not end with a wording that caramel has. Write "
            f"yes_no:FOLDER{WORDING}NAME, with NAME one of {', '.join(WORDINGS)}."
        )
    return folder, WORDINGS[wording]


def _load_yes_no(target: str, *, device: str, precision: str, name: str) -> BlipAnswers:
    """Return the matcher of FOLDER#wording=NAME; errors as in ``load_blip_answers``."""
    folder, question = _get_question(target)
    check_type(folder, MODEL_TYPES["yes_no"])
    return load_blip_answers("yes_no", question, folder, device=device, precision=precision, name=name)


def _list_problems(target: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading it."""
    try:
        folder, _ = _get_question(target)
    except BackendError as error:
        return [str(error)]
    return list_blip_problems(folder)


YES_NO = Family(
    "yes_no",
    "matcher",
    "FOLDER#wording=1a",
    "BLIP asked yes or no; wordings 1a … 2b",
    load=_load_yes_no,
    missing=_list_problems,
)
