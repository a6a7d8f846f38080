"""Generate text by causal language models of transformers from a folder: in batches, in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from caramel.errors import BackendError
from caramel.interfaces.language_model import (
    FAILED,
    Message,
    ModelOutput,
    NextRequests,
    OnResponse,
    Request,
)
from caramel.interfaces.model import Identity
from caramel.models.devices import resolve_device
from caramel.models.llm.sampling import GumbelMaxProcessor
from caramel.models.transformers.transformers_files import (
    build_identity,
    load_pretrained,
    load_tokenizer,
)

TURNS = {
    "system": "{}",
    "user": "Input:\n{}",
    "assistant": "Output:\n{}",
}  # for models without a chat template


class CausalLanguageModel:
    """A ``LanguageModel`` over a causal model: float32 on a CPU, bfloat16 on a GPU that supports it.

    Tokens are sampled by the Gumbel-max trick with a random generator for each request. A sample thus depends
    on the request's seed and not on the other requests of the batch.

    Args:
        model: in evaluation mode on its device.
        tokenizer: the model's tokenizer; its chat template is applied, if it has one.
        max_connections: number of requests in one batch.
    """

    def __init__(self, model: Any, tokenizer: Any, max_connections: int) -> None:
        from transformers import GenerationConfig

        self._model, self._tokenizer, self._batch_size = model, tokenizer, max_connections
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        ends = model.generation_config.eos_token_id
        self._ends = tokenizer.eos_token_id if ends is None else ends
        # Other settings of the folder's generation_config.json (beams, penalties …) are ignored.
        model.generation_config = GenerationConfig(
            do_sample=False, num_beams=1, eos_token_id=self._ends, pad_token_id=tokenizer.pad_token_id
        )

    @property
    def identity(self) -> Identity:
        """Return what determines the responses: weights, tokenizer with chat template, end tokens, and software."""
        precision = {"torch.float32": "fp32", "torch.bfloat16": "bf16"}[str(self._model.dtype)]
        device = str(self._model.device)
        return build_identity(
            "local",
            self._model,
            [self._tokenizer],
            precision=precision,
            device=device,
            template=self._tokenizer.chat_template or TURNS,
            ends=self._ends,
        )

    def answer_requests(self, next_requests: NextRequests, on_response: OnResponse) -> None:
        """Answer requests, one batch at a time; see ``interfaces.language_model``."""
        while batch := next_requests(self._batch_size):
            for (name, _), output in zip(
                batch, self.generate_outputs([request for _, request in batch]), strict=True
            ):
                on_response(name, output)

    def generate_outputs(self, requests: Sequence[Request]) -> list[ModelOutput]:
        """Return the responses to a batch; a request that is too long for the model has none."""
        prompts = [self._build_prompt(request.messages) for request in requests]
        lengths = [len(ids) for ids in self._tokenizer(prompts, add_special_tokens=False)["input_ids"]]
        most = getattr(self._model.config, "max_position_embeddings", None) or 2**31
        fits = [i for i, n in enumerate(lengths) if n > 0 and n + requests[i].max_tokens <= most]
        message = "the prompt has {} tokens, the answer may have {}, and the model takes {}"
        outputs = [
            ModelOutput(None, FAILED, problem=message.format(n, r.max_tokens, most))
            for n, r in zip(lengths, requests, strict=True)
        ]
        if fits:
            written = self._generate_batch([prompts[i] for i in fits], [requests[i] for i in fits])
            for index, output in zip(fits, written, strict=True):
                outputs[index] = output._replace(input_tokens=lengths[index])
        return outputs

    def _generate_batch(self, prompts: list[str], requests: list[Request]) -> list[ModelOutput]:
        import torch

        begun = time.monotonic()
        inputs = self._tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
        inputs = {name: inputs[name].to(self._model.device) for name in ("input_ids", "attention_mask")}
        ends = self._ends
        with torch.inference_mode():
            output = self._model.generate(
                **inputs,
                max_new_tokens=max(r.max_tokens for r in requests),
                logits_processor=[GumbelMaxProcessor(requests)],
            )
        seconds = round((time.monotonic() - begun) / len(requests), 3)
        stops = {ends} if isinstance(ends, int) else {*(ends or ())}
        outputs = []
        for row, request in zip(output[:, inputs["input_ids"].shape[1] :].tolist(), requests, strict=True):
            tokens = row[: request.max_tokens]
            end = next((i for i, token in enumerate(tokens) if token in stops), None)
            text = self._tokenizer.decode(tokens[:end], skip_special_tokens=True)
            written = len(tokens) if end is None else end + 1
            finish = "length" if end is None else "stop"
            outputs.append(ModelOutput(text, finish, output_tokens=written, seconds=seconds))
        return outputs

    def _build_prompt(self, messages: tuple[Message, ...]) -> str:
        """Return the messages as one text, by the tokenizer's chat template if it has one."""
        if self._tokenizer.chat_template is None:
            return "\n\n".join([*(TURNS[role].format(words) for role, words in messages), "Output:\n"])
        from jinja2 import TemplateError

        turns = [{"role": role, "content": words} for role, words in messages]
        # some templates have no system role, and raise an error
        for tried in (turns, _merge_system_turn(turns)):
            try:
                return str(
                    self._tokenizer.apply_chat_template(tried, tokenize=False, add_generation_prompt=True)
                )
            except TemplateError as error:
                problem = error
        raise BackendError(f"The chat template of {self._model.name_or_path!r} cannot be used: {problem}.")


def _merge_system_turn(turns: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the turns with the system message prepended to the first user message."""
    first, second, *rest = turns
    return [{**second, "content": f"{first['content']}\n\n{second['content']}"}, *rest]


def load_causal_model(target: str, *, max_connections: int) -> CausalLanguageModel:
    """Return the model of a folder; custom code in the folder is never run.

    Raises:
        BackendError: the model is missing or invalid, or is not a causal language model.
    """
    import torch
    from transformers import AutoModelForCausalLM

    device = resolve_device("auto")
    halves = device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = torch.bfloat16 if halves else torch.float32
    model = load_pretrained(AutoModelForCausalLM, target, device=device, dtype=dtype)
    return CausalLanguageModel(model, load_tokenizer(target), max_connections)
