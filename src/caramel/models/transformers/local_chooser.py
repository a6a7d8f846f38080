"""Ask generative models of transformers in words: the family ``choice``, whose models are folders instead of servers.

The prompt is built as for the scores by likelihood (``generative_inputs``). The reply is decoded greedily, one
question at a time, so that it does not depend on the other questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from caramel.errors import BackendError
from caramel.interfaces.model import CUT, Family, Identity, Question, Reply
from caramel.io.image_codec import decode_image
from caramel.models.devices import disable_tf32, resolve_device, resolve_precision
from caramel.models.loading.files import PICTURE, TEXT, translate_load_errors
from caramel.models.transformers.generative_inputs import PROMPTS, build_prompt
from caramel.models.transformers.transformers_files import (
    MODEL_TYPES,
    build_identity,
    check_type,
    list_checkpoint_problems,
    load_pretrained,
    load_processor,
)
from caramel.models.transformers.vision_towers import CLIP_FLANT5

MAX_TOKENS = 64  # an option and its caption fit
TYPES = tuple(name for name in MODEL_TYPES["vgptscore"] if name != CLIP_FLANT5)
WORDING = "#wording="


class LocalChooser:
    """A ``Chooser`` over a generative model of transformers.

    Args:
        model: the model, in evaluation mode on its device.
        processor: its tokenizer and image processor.
        device: cpu, cuda or cuda:N.
        precision: precision of the model's weights: fp32, bf16 or fp16.
        name: name of the model in tables.
        wording: published wording in which it is asked; empty: the wordings of ``prompt_templates``.
    """

    def __init__(
        self, model: Any, processor: Any, *, device: str, precision: str, name: str, wording: str
    ) -> None:
        self.name, self.wording = name, wording
        self._model, self._processor = model, processor
        self._device, self._precision = device, precision

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the replies."""
        parts = ("tokenizer", "image_processor", "qformer_tokenizer")
        return build_identity(
            "choice",
            self._model,
            [getattr(self._processor, part) for part in parts if hasattr(self._processor, part)],
            precision=self._precision,
            device=self._device,
            prompt=build_prompt(self._processor, self._model.config.model_type, "{}"),
            max_tokens=MAX_TOKENS,
        )

    def answer_questions(self, questions: Sequence[Question], on_reply: Callable[[int, Reply], None]) -> None:
        """Answer the questions in order; call ``on_reply`` with the index and the reply of each.

        Raises:
            DataError: an image cannot be read.
        """
        for index, question in enumerate(questions):
            on_reply(index, self._generate_reply(question))

    def _generate_reply(self, question: Question) -> Reply:
        import torch

        examples = [(example.prompt, reply) for example, reply in question.examples]
        prompt = build_prompt(self._processor, self._model.config.model_type, question.prompt, examples)
        turns = [*(example for example, _ in question.examples), question]
        images = [decode_image(one.image(), "of a question") for one in turns]
        data = self._processor(images=images, text=[prompt], return_tensors="pt")
        for name in ("qformer_input_ids", "qformer_attention_mask"):  # a Q-Former has few positions
            if name in data:
                data[name] = data[name][:, : self._processor.qformer_tokenizer.model_max_length]
        inputs = {
            name: value.to(self._device, self._model.dtype if value.is_floating_point() else None)
            for name, value in data.items()
        }
        with torch.inference_mode(), disable_tf32():
            tokens = self._model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=MAX_TOKENS)[
                0
            ]
        given = inputs["input_ids"][0]
        if len(tokens) >= len(given) and torch.equal(tokens[: len(given)], given):
            tokens = tokens[len(given) :]  # a decoder repeats the prompt, an encoder-decoder does not
        tokenizer = self._processor.tokenizer
        is_cut = len(tokens) >= MAX_TOKENS and int(tokens[-1]) != tokenizer.eos_token_id
        text = tokenizer.decode(tokens, skip_special_tokens=True).strip()
        return Reply(text, finish_reason=CUT if is_cut else "stop")


def load_local_chooser(target: str, *, device: str, precision: str, name: str) -> LocalChooser:
    """Return the model of a target: FOLDER or OWNER/REPO, with ``#wording=NAME`` for a published wording.

    Raises:
        BackendError: it is missing or damaged, or is not a generative model.
    """
    import torch
    from transformers import AutoModelForImageTextToText

    folder, _, wording = target.partition(WORDING)
    model_type = check_type(folder, TYPES)
    processor, device = load_processor(folder), resolve_device(device)
    if not processor.chat_template and model_type not in PROMPTS:
        raise BackendError(f"{folder!r} has no chat template, and the prompt of its training is not known.")
    precision = resolve_precision(precision, device)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    model = load_pretrained(AutoModelForImageTextToText, folder, device=device, dtype=dtype)
    chooser = LocalChooser(model, processor, device=device, precision=precision, name=name, wording=wording)
    with translate_load_errors(folder):  # parts that load may still not match
        chooser.answer_questions([Question(TEXT, lambda: PICTURE)], lambda index, reply: None)
    return chooser


def list_local_chooser_problems(target: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without reading its weights."""
    return list_checkpoint_problems(target.partition(WORDING)[0], types=TYPES, images=True)


CHOICE = Family(
    "choice",
    "chooser",
    "FOLDER",
    "the same, asked in words",
    load=load_local_chooser,
    missing=list_local_chooser_problems,
)
