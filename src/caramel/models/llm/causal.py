"""Generate text by causal language models of transformers from a folder: in batches, in this process."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
from caramel.models.llm.grammar import GrammarCompiler
from caramel.models.llm.prefix_cache import PrefixCache, expand_prefix
from caramel.models.llm.sampling import GumbelMaxProcessor
from caramel.models.transformers.transformers_files import (
    build_identity,
    load_pretrained,
    load_tokenizer,
)

if TYPE_CHECKING:
    import torch

BATCHES = 4  # as many as the scheduler has requests for
TURNS = {
    "system": "{}",
    "user": "Input:\n{}",
    "assistant": "Output:\n{}",
}  # for models without a chat template


class CausalLanguageModel:
    """A ``LanguageModel`` over a causal model: float32 on a CPU, bfloat16 on a GPU that supports it.

    Tokens are sampled by the Gumbel-max trick with a random generator for each request. A sample thus depends
    on the request's seed and not on the other requests of the batch. A batch holds requests of one prompt,
    whose common beginning is computed once (``prefix_cache``).

    Args:
        model: in evaluation mode on its device.
        tokenizer: the model's tokenizer; its chat template is applied, if it has one.
        max_connections: number of requests in one batch.
    """

    def __init__(self, model: Any, tokenizer: Any, max_connections: int) -> None:
        from transformers import GenerationConfig

        self._model, self._tokenizer, self._batch_size = model, tokenizer, max_connections
        self._prefixes = PrefixCache(model)
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
        """Answer requests, one batch at a time; see ``interfaces.language_model``.

        Some batches' worth of requests wait here, so that a batch can be filled with those of one prompt.
        """
        waiting: dict[Message, list[tuple[str, Request]]] = {}
        while True:
            number = BATCHES * self._batch_size - sum(map(len, waiting.values()))
            for name, request in next_requests(number):
                waiting.setdefault(get_prompt(request), []).append((name, request))
            if not waiting:
                return
            prompt = max(waiting, key=lambda prompt: len(waiting[prompt]))
            requests = waiting.pop(prompt)
            batch, rest = requests[: self._batch_size], requests[self._batch_size :]
            if rest:
                waiting[prompt] = rest
            outputs = self.generate_outputs([request for _, request in batch])
            for (name, _), output in zip(batch, outputs, strict=True):
                on_response(name, output)

    def generate_outputs(self, requests: Sequence[Request]) -> list[ModelOutput]:
        """Return the responses to a batch; a request that is too long for the model has none."""
        prompts = [self._build_prompt(request.messages) for request in requests]
        rows: list[list[int]] = self._tokenizer(prompts, add_special_tokens=False)["input_ids"]
        lengths = [len(ids) for ids in rows]
        most = getattr(self._model.config, "max_position_embeddings", None) or 2**31
        fits = [i for i, n in enumerate(lengths) if n > 0 and n + requests[i].max_tokens <= most]
        message = "the prompt has {} tokens, the answer may have {}, and the model takes {}"
        outputs = [
            ModelOutput(None, FAILED, problem=message.format(n, r.max_tokens, most))
            for n, r in zip(lengths, requests, strict=True)
        ]
        for prompt in dict.fromkeys(get_prompt(requests[i]) for i in fits):
            same = [i for i in fits if get_prompt(requests[i]) == prompt]
            written = self._generate_batch([rows[i] for i in same], [requests[i] for i in same])
            for index, output in zip(same, written, strict=True):
                outputs[index] = output._replace(input_tokens=lengths[index])
        return outputs

    def _generate_batch(self, rows: list[list[int]], requests: list[Request]) -> list[ModelOutput]:
        """Return the responses to requests of one prompt with these tokens."""
        import torch

        begun = time.monotonic()
        grammar = self._compiler.create_processor(requests) if any(r.schema for r in requests) else None
        prefix = self._prefixes.compute_prefix(get_prompt(requests[0]), rows)
        ids, mask = self._pad_rows(rows, prefix.ids if prefix else [])
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                past_key_values=expand_prefix(prefix, len(rows)) if prefix else None,
                max_new_tokens=max(r.max_tokens for r in requests),
                logits_processor=[*([grammar] if grammar else []), GumbelMaxProcessor(requests)],
            )
        seconds = round((time.monotonic() - begun) / len(requests), 3)
        problems = grammar.problems if grammar else {}
        return [
            ModelOutput(None, FAILED, problem=problems[row], seconds=seconds)
            if row in problems
            else self._read_output(tokens[: request.max_tokens])._replace(seconds=seconds)
            for row, (tokens, request) in enumerate(
                zip(output[:, ids.shape[1] :].tolist(), requests, strict=True)
            )
        ]

    def _pad_rows(self, rows: list[list[int]], prefix: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tokens and attention mask, each (rows, length): the prefix, padding, and the rest of each row."""
        import torch

        longest = max(map(len, rows))
        begin, gaps = len(prefix), [longest - len(row) for row in rows]
        padding = self._tokenizer.pad_token_id
        ids = [[*prefix, *[padding] * gap, *row[begin:]] for row, gap in zip(rows, gaps, strict=True)]
        mask = [[1] * begin + [0] * gap + [1] * (longest - begin - gap) for gap in gaps]
        return torch.tensor(ids, device=self._model.device), torch.tensor(mask, device=self._model.device)

    def _read_output(self, tokens: list[int]) -> ModelOutput:
        """Return the response in the tokens that a model wrote, up to the end token."""
        end = next((i for i, token in enumerate(tokens) if token in self._stops), None)
        text = self._tokenizer.decode(tokens[:end], skip_special_tokens=True)
        written = len(tokens) if end is None else end + 1
        return ModelOutput(text, "length" if end is None else "stop", output_tokens=written)

    @functools.cached_property
    def _compiler(self) -> GrammarCompiler:
        return GrammarCompiler(
            self._tokenizer, sorted(self._stops), self._model.config.get_text_config().vocab_size
        )

    @property
    def _stops(self) -> set[int]:
        return {self._ends} if isinstance(self._ends, int) else {*(self._ends or ())}

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


def get_prompt(request: Request) -> Message:
    """Return the message that requests of one prompt share: the first, with the task and the rules."""
    return request.messages[0]


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
    tokenizer = load_tokenizer(target)
    return CausalLanguageModel(model, tokenizer, max_connections)
