"""Count what requests to a language model cost, and stop at the caps of the budget."""

from __future__ import annotations

from dataclasses import dataclass

from caramel.interfaces.language_model import ModelOutput, Request

BYTES = 4  # UTF-8 bytes per token, roughly, where no count is given
PER = 1e6  # tokens that a price refers to


@dataclass(frozen=True)
class Budget:
    """Prices per million tokens, in any one currency, and caps; None means no cap."""

    price_per_mtok_in: float
    price_per_mtok_out: float
    requests: int | None
    tokens: int | None
    cost: float | None


@dataclass
class Usage:
    """The usage of a data set so far, including responses that were cached already."""

    budget: Budget
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reserved_requests: int = 0
    reserved_in: int = 0
    reserved_out: int = 0

    @property
    def cost(self) -> float:
        """Return the cost of the input and output tokens."""
        return self._compute_cost(self.input_tokens, self.output_tokens)

    def _compute_cost(self, input_tokens: int, output_tokens: int) -> float:
        return (
            self.budget.price_per_mtok_in * input_tokens + self.budget.price_per_mtok_out * output_tokens
        ) / PER

    def record_reply(self, output: ModelOutput, request: Request) -> None:
        """Add a response to the usage."""
        self.requests += 1
        self.input_tokens += (
            estimate_request_tokens(request) if output.input_tokens is None else output.input_tokens
        )
        self.output_tokens += (
            estimate_tokens(output.text or "") if output.output_tokens is None else output.output_tokens
        )

    def reserve_request(self, request: Request) -> str | None:
        """Reserve the largest cost of a request; if that would exceed a cap, reserve nothing and return the cap."""
        requests = self.requests + self.reserved_requests + 1
        input_tokens = self.input_tokens + self.reserved_in + estimate_request_tokens(request)
        output_tokens = self.output_tokens + self.reserved_out + request.max_tokens
        broken = self._find_broken_cap(requests, input_tokens, output_tokens)
        if broken is None:
            self._add_reservation(request, 1)
        return broken

    def find_exceeded_cap(self) -> str | None:
        """Return the cap that the responses so far exceed; None if there is none."""
        return self._find_broken_cap(self.requests, self.input_tokens, self.output_tokens)

    def _find_broken_cap(self, requests: int, input_tokens: int, output_tokens: int) -> str | None:
        caps = self.budget
        if caps.requests is not None and requests > caps.requests:
            return f"max_requests = {caps.requests:,}"
        if caps.tokens is not None and input_tokens + output_tokens > caps.tokens:
            return f"max_total_tokens = {caps.tokens:,}"
        if caps.cost is not None and self._compute_cost(input_tokens, output_tokens) > caps.cost:
            return f"max_cost = {caps.cost:g}"
        return None

    def release_request(self, request: Request) -> None:
        """Release the reservation of a request."""
        self._add_reservation(request, -1)

    def _add_reservation(self, request: Request, sign: int) -> None:
        self.reserved_requests += sign
        self.reserved_in += sign * estimate_request_tokens(request)
        self.reserved_out += sign * request.max_tokens

    def __str__(self) -> str:
        """Return a short summary."""
        tokens = self.input_tokens + self.output_tokens
        return f"{self.requests:,} requests, {tokens:,} tokens, cost {self.cost:,.2f}"


def estimate_request_tokens(request: Request) -> int:
    """Return the approximate number of tokens of a request."""
    return sum(map(estimate_tokens, (request.schema or "", *(words for _, words in request.messages))))


def estimate_tokens(text: str) -> int:
    """Return the approximate number of tokens of a text."""
    return -(-len(text.encode(errors="replace")) // BYTES)
