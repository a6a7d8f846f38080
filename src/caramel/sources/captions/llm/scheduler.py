"""Run many scripts concurrently with one language model: use cached responses, request the others, store all."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tqdm import tqdm

from caramel.errors import BackendError, ResourceError
from caramel.interfaces.connections import AUTO, HasConnections, MaxConnections
from caramel.interfaces.language_model import LanguageModel, ModelOutput, Request
from caramel.interfaces.text_judge import TextJudge
from caramel.sources.captions.llm.budget import Usage
from caramel.sources.captions.llm.conversation import NO_REPLY, Outcome, PromptInput, Script
from caramel.sources.captions.llm.judge import VERSION, compute_judgements
from caramel.sources.captions.llm.models import NamedModel, dump_canonical_json
from caramel.sources.captions.llm.response_cache import ReplyKey, ReplyStore
from caramel.sources.captions.prompts.prompt_files import (
    compute_prompt_version,
    compute_text_version,
    load_prompt,
)

PATIENCE = 16  # consecutive requests without a response, after which the run ends
WINDOW = 4  # active scripts per allowed connection


@dataclass(frozen=True)
class Sampling:
    """How the tokens of sampled requests are drawn; requests at temperature 0 are greedy.

    Attributes:
        temperature: upper bound of each step's own temperature, which is 1.5 for proposals and 1.0 for
            further paraphrases.
        top_p, min_p: as in ``Request``.
    """

    temperature: float
    top_p: float
    min_p: float


PAPERS = Sampling(1.5, 1.0, 0.0)  # as in SugarCrepe: every step's own temperature, no truncation


@dataclass(frozen=True)
class RequestSettings:
    """Settings of the requests to a model.

    Attributes:
        model: name under which responses are stored, canonical JSON.
        seed: random draws depend only on this and the prompt's input.
        examples: largest number of examples in a prompt.
        max_tokens: largest number of tokens of a response.
        response_schema: whether the server enforces the form of responses.
        max_connections: largest number of concurrent requests; ``AUTO``: as many as the model takes.
        sampling: how the tokens of sampled requests are drawn.
        prompts: folder of the user's own prompts; "": caramel's.
    """

    model: str
    seed: int
    examples: int
    max_tokens: int
    response_schema: bool
    max_connections: MaxConnections
    sampling: Sampling = PAPERS
    prompts: str = ""


@dataclass
class _PendingRequest:
    """A pending prompt, and the scripts that wait for its response; ``request`` is None for a judge."""

    prompt_input: PromptInput
    key: ReplyKey
    request: Request | None
    scripts: list[tuple[int, Script]]


class Scheduler:
    """A run of scripts; ``outcomes`` maps a script's index to its outcome.

    Args:
        scripts: started as capacity allows.
        total: number of scripts.
        request_settings: settings of the requests.
        judges: name of a judge's prompt -> the judge. Judges run in batches, once no other script can
            proceed.
        store: stores the responses.
        spent: counts the usage, and ends the run at a cap.
        title: title of the progress bar.
    """

    def __init__(
        self,
        scripts: Iterator[Script],
        total: int,
        *,
        request_settings: RequestSettings,
        judges: Mapping[str, NamedModel[TextJudge]],
        store: ReplyStore,
        spent: Usage,
        title: str,
    ) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self._scripts, self._total, self._title = enumerate(scripts), total, title
        self._request_settings, self._judges, self._store, self._spent = (
            request_settings,
            judges,
            store,
            spent,
        )
        self._pending: dict[str, _PendingRequest] = {}
        self._ready: dict[str, deque[str]] = {}  # prompt -> names of its requests
        self._prompt = ""  # of the last request
        self._unjudged: dict[str, list[str]] = {name: [] for name in judges}
        self._under_way = 0  # requests that were taken and have no response yet
        self._silent, self._silence, self._stop = 0, "", ""
        self._server: HasConnections | None = None

    def run(self, model: NamedModel[LanguageModel]) -> dict[int, Outcome]:
        """Return the outcome of each script; the model is loaded only if a response is missing.

        Raises:
            ResourceError: a cap of the budget is reached; responses so far are saved.
            BackendError: the model refuses, ``PATIENCE`` requests in a row had no response, or no request had
                one; responses so far are saved.
        """
        with tqdm(total=self._total, desc=self._title, unit="text", disable=None) as self._bar:
            if first := self._take_pending_requests(1):
                opened = model.open()
                self._server = opened if isinstance(opened, HasConnections) else None
                opened.answer_requests(
                    lambda number: self._take_requests(first, number), self._handle_response
                )
            self._bar.set_postfix_str(self._format_state())
        if self._silence:
            raise BackendError(
                f"The language model gave no response to {PATIENCE} requests in a row; the last problem was: "
                f"{self._silence}\nCheck the server and its URL, then rerun: responses so far are saved "
                f"({self._spent})."
            )
        self._check_budget()
        assert len(self.outcomes) == self._total
        if self.outcomes and all(outcome.reason == NO_REPLY for outcome in self.outcomes.values()):
            raise BackendError(
                f"The language model gave no response to any request for {self._total:,} texts. Check the "
                f"server and its URL, then rerun."
            )
        return self.outcomes

    def collect_requests(self, number: int) -> list[tuple[ReplyKey, Request]]:
        """Return up to ``number`` requests that the scripts wait for, without sending any.

        Each script is continued with all cached responses. No other method can be called afterwards.

        Raises:
            ResourceError: the requests would exceed a cap of the budget.
        """
        with tqdm(total=self._total, desc=self._title, unit="text", disable=None) as self._bar:
            requests = self._take_pending_requests(number)
        self._check_budget()
        return [(self._pending[name].key, request) for name, request in requests]

    def _check_budget(self) -> None:
        """Raise a ResourceError if a cap of the budget is reached."""
        if self._stop:
            raise ResourceError(
                f"The budget negatives.language_model.{self._stop} is reached after {len(self.outcomes):,} of "
                f"{self._total:,} texts ({self._spent}). Responses so far are saved: raise the cap and rerun."
            )

    @property
    def _ended(self) -> bool:
        """Return whether no more requests are sent: the model does not respond, or a cap is reached."""
        return bool(self._silence or self._stop)

    def _take_requests(self, first: list[tuple[str, Request]], number: int) -> list[tuple[str, Request]]:
        """Return up to ``number`` requests: those in ``first``, each once, then pending ones."""
        requests = [first.pop() for _ in first[:number]]
        return requests + self._take_pending_requests(number - len(requests))

    def _take_pending_requests(self, number: int) -> list[tuple[str, Request]]:
        """Return up to ``number`` pending requests; start scripts and run the judges to get them.

        Requests of one prompt follow each other as far as possible: they share a long prefix, which servers cache.
        """
        connections = self._request_settings.max_connections
        window = WINDOW * (self._under_way + number if connections == AUTO else connections)
        while not self._ended:
            room = len(self._pending) < window
            if room and (begun := next(self._scripts, None)):
                self._advance_script(*begun, None)
            elif any(self._unjudged.values()) and sum(map(len, self._ready.values())) < number:
                self._run_judges()
            else:
                break
        requests: list[tuple[str, Request]] = []
        while not self._ended and len(requests) < number and (queue := self._select_queue()):
            request = self._pending[queue[0]].request
            assert request is not None
            self._stop = self._spent.reserve_request(request) or ""
            if not self._stop:
                requests.append((queue.popleft(), request))
                self._under_way += 1
        return requests

    def _select_queue(self) -> deque[str]:
        """Return the ready requests of the last prompt; if there are none, those of the prompt with the most."""
        if not self._ready.get(self._prompt):
            self._prompt = max(self._ready, key=lambda prompt: len(self._ready[prompt]), default="")
        return self._ready.get(self._prompt, deque())

    def _handle_response(self, name: str, output: ModelOutput) -> None:
        """Store a response and continue the scripts that waited for it."""
        waiting = self._pending.pop(name)
        self._under_way -= 1
        assert waiting.request is not None
        output = self._store.put_reply(waiting.key, output)
        self._spent.release_request(waiting.request)
        self._spent.record_reply(output, waiting.request)
        self._silent = self._silent + 1 if output.text is None else 0
        if self._silent >= PATIENCE:
            self._silence = self._silence or output.problem or "no reply"
        if self._silence:
            return
        for index, script in waiting.scripts:
            self._advance_script(index, script, output)

    def _run_judges(self) -> None:
        """Run the judges on pending prompts, store their scores, and continue the scripts that waited."""
        for judge_name, judge in self._judges.items():
            names, self._unjudged[judge_name] = self._unjudged[judge_name], []
            waiting = [self._pending.pop(name) for name in names]
            outputs = (
                compute_judgements(judge.open(), [one.prompt_input for one in waiting]) if waiting else []
            )
            for one, reply in zip(waiting, outputs, strict=True):
                stored = self._store.put_reply(one.key, reply)
                for index, script in one.scripts:
                    self._advance_script(index, script, stored)

    def _advance_script(self, index: int, script: Script, output: ModelOutput | None) -> None:
        """Continue a script with all cached responses, until it ends or must wait."""
        while True:
            try:
                prompt_input = script.send(output) if output else next(script)
            except StopIteration as done:
                self.outcomes[index] = done.value
                self._bar.update()
                self._bar.set_postfix_str(self._format_state(), refresh=False)
                return
            key, request = self._build_request(prompt_input)
            cached = self._store.get_reply(key)
            if cached is None:
                name = key.reply_id
                if name not in self._pending:
                    self._pending[name] = _PendingRequest(prompt_input, key, request, [])
                    if request is None:
                        self._unjudged[prompt_input.prompt].append(name)
                    else:
                        self._ready.setdefault(prompt_input.prompt, deque()).append(name)
                self._pending[name].scripts.append((index, script))
                return
            output, before = cached
            if request is not None and not before:
                self._spent.record_reply(output, request)
                self._stop = self._stop or self._spent.find_exceeded_cap() or ""

    def _format_state(self) -> str:
        """Return the usage so far, and the number of connections to a server."""
        connections = f", {self._server.connections} connections" if self._server else ""
        return f"{self._spent}{connections}"

    def _build_request(self, prompt_input: PromptInput) -> tuple[ReplyKey, Request | None]:
        """Return the key of a prompt's response, and the request; None for a judge's prompt."""
        if judge := self._judges.get(prompt_input.prompt):
            return ReplyKey(
                judge.name,
                f"{prompt_input.prompt}@{VERSION}",
                "{}",
                dump_canonical_json(prompt_input.given),
                prompt_input.attempt,
            ), None
        return build_request(prompt_input, self._request_settings)


def build_request(prompt_input: PromptInput, request_settings: RequestSettings) -> tuple[ReplyKey, Request]:
    """Return the key of a prompt's response, and the request."""
    template = load_prompt(prompt_input.prompt, request_settings.prompts)
    retry = {"retry": prompt_input.retry} if prompt_input.retry else {}
    given = dump_canonical_json({"given": prompt_input.given, "failed": prompt_input.failed, **retry})
    seed = (
        zlib.crc32(
            dump_canonical_json(
                [request_settings.seed, prompt_input.prompt, given, prompt_input.attempt]
            ).encode()
        )
        & 0x7FFFFFFF
    )
    sampling = request_settings.sampling
    temperature = min(prompt_input.temperature, sampling.temperature)
    seed = seed if temperature else 0
    parameters: dict[str, object] = {
        "temperature": temperature,
        "seed": seed,
        "max_tokens": request_settings.max_tokens,
        "structured": request_settings.response_schema,
    }
    schema = template.format_schema_text(prompt_input.n_options) if request_settings.response_schema else None
    if schema is not None:
        parameters["schema"] = compute_text_version(schema)
    truncation: dict[str, float] = {}
    if temperature:
        # Truncation that has no effect is not in the key: stored responses of caramel 0.1 lack it.
        truncation |= {"top_p": sampling.top_p} if sampling.top_p < 1 else {}
        truncation |= {"min_p": sampling.min_p} if sampling.min_p > 0 else {}
    text_version = compute_prompt_version(
        prompt_input.prompt, request_settings.examples, request_settings.prompts
    )
    version = f"{prompt_input.prompt}@{text_version}"
    key = ReplyKey(
        request_settings.model,
        version,
        dump_canonical_json(parameters | truncation),
        given,
        prompt_input.attempt,
    )
    messages = template.build_messages(prompt_input.given, request_settings.examples, prompt_input.failed)
    return key, Request(messages, temperature, seed, request_settings.max_tokens, schema, **truncation)
