"""Constrain the tokens of a local model to a request's JSON schema, by llguidance.

The grammar allows the spaces that ``json.dumps`` writes, as in the worked examples of the prompts, and no
others: a small model may write white space for ever. Only the limit of tokens bounds an answer whose schema
has no limits. Such an answer breaks off and is not of the schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError
from caramel.interfaces.language_model import Request

if TYPE_CHECKING:
    import torch

SPACING: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
NO_TOKEN = "no token of the model continues the answer"
INSTALL = "pip install llguidance"


class GrammarCompiler:
    """Compiles JSON schemas to matchers of tokens.

    Args:
        tokenizer: the model's tokenizer.
        ends: ids of the tokens that end a response.
        vocabulary: number of the model's logits, which may exceed the tokenizer's tokens.

    Raises:
        BackendError: llguidance is not installed, or cannot read the tokenizer.
    """

    def __init__(self, tokenizer: Any, ends: Sequence[int], vocabulary: int) -> None:
        try:
            import llguidance.hf
        except ImportError as error:
            raise BackendError(
                f"A local model enforces a schema (negatives.language_model.response_schema) by the package "
                f"llguidance, which is not installed. Run `{INSTALL}`, or set response_schema=false."
            ) from error
        self._size = max(vocabulary, len(tokenizer))
        try:
            self._tokenizer = llguidance.hf.from_tokenizer(tokenizer, self._size, [*ends])
        except (ValueError, RuntimeError) as error:
            raise BackendError(
                f"llguidance cannot read the tokenizer of {tokenizer.name_or_path!r}: {error}. It needs a "
                f"tokenizer.json of the package tokenizers. Convert the tokenizer, or set "
                f"negatives.language_model.response_schema=false."
            ) from error
        self._executor = llguidance.LLExecutor()
        self._matchers: dict[str, Any] = {}  # schema -> matcher at the beginning of an answer

    def create_processor(self, requests: Sequence[Request]) -> GrammarProcessor:
        """Return the processor of a batch; a request without a schema is not constrained.

        Raises:
            BackendError: a schema is invalid, or no text, or no token, satisfies it.
        """
        for request in requests:
            if request.schema is not None and request.schema not in self._matchers:
                self._matchers[request.schema] = self._compile_schema(request.schema)
        matchers = {
            row: self._matchers[request.schema].deep_copy()
            for row, request in enumerate(requests)
            if request.schema is not None
        }
        return GrammarProcessor(matchers, self._executor, self._size)

    def _compile_schema(self, schema: str) -> Any:
        """Return the matcher of a schema at the beginning of an answer; errors as in ``create_processor``."""
        from llguidance import LLMatcher

        try:
            grammar = LLMatcher.grammar_from_json_schema(schema, overrides=SPACING)
            matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
            problem = matcher.get_error()
        except ValueError as error:  # not a JSON object
            problem = str(error)
        if not problem and (not any(matcher.compute_bitmask()) or matcher.is_error()):
            problem = _describe_dead_end(matcher)
        if problem:
            raise BackendError(f"The JSON schema {schema!r:.300} cannot be enforced: {problem}.")
        return matcher


class GrammarProcessor:
    """Sets the logits of tokens to minus infinity that a request's schema does not allow.

    Attributes:
        problems: row -> why no token was allowed, for rows that came to a dead end.
    """

    def __init__(self, matchers: dict[int, Any], executor: Any, size: int) -> None:
        self.problems: dict[int, str] = {}
        self._matchers, self._executor, self._size, self._started = matchers, executor, size, False

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (n, tokens); input_ids (n, length) end with the tokens drawn last."""
        import torch
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask_par

        tokens = input_ids[:, -1].tolist()
        for row, matcher in self._matchers.items():
            if self._started and not matcher.is_stopped():
                matcher.consume_token(tokens[row])
        self._started = True
        mask = allocate_token_bitmask(len(scores), self._size)
        active = [(matcher, row) for row, matcher in self._matchers.items()]
        if active:  # a complete answer allows the end tokens alone
            fill_next_token_bitmask_par(self._executor, active, mask)
        for matcher, row in active:
            if matcher.is_error() or not mask[row].any():
                self.problems[row] = _describe_dead_end(matcher)
                del self._matchers[row]
                mask[row] = -1
        bits = torch.from_numpy(mask).to(scores.device)[:, :, None] >> torch.arange(32, device=scores.device)
        allowed = (bits & 1).bool().flatten(1)[:, : scores.shape[1]]
        return scores.masked_fill(~allowed, float("-inf"))


def _describe_dead_end(matcher: Any) -> str:
    """Return in one line why a matcher allows no token."""
    error = matcher.get_error().partition("\n")[0]
    return f"{NO_TOKEN} ({error})" if error else NO_TOKEN
