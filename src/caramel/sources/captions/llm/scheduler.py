"""Many scripts at once with one language model: what is known is taken, what is not is asked, and all of it is kept."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tqdm import tqdm

from caramel.errors import BackendError, ResourceError
from caramel.interfaces.language_model import LanguageModel, Request, Said
from caramel.interfaces.text_judge import TextJudge
from caramel.sources.captions.llm.budget import Spent
from caramel.sources.captions.llm.conversation import NO_REPLY, Ask, Outcome, Script
from caramel.sources.captions.llm.judge import VERSION, judgements
from caramel.sources.captions.llm.models import Named, canonical
from caramel.sources.captions.llm.response_cache import Key, ReplyStore
from caramel.sources.captions.prompts.prompt_files import prompt, version_of

PATIENCE = 16  # requests in a row without a reply, after which the run ends
WINDOW = 4  # scripts under way for each request that may be


@dataclass(frozen=True)
class Manner:
    """How a model is asked.

    Attributes:
        model: what replies are kept under, canonical JSON.
        seed: draws of words depend on this and the question alone.
        examples: that a prompt shows at most.
        max_tokens: of an answer.
        structured: whether the server is to see to the form of answers.
        at_once: requests under way.
    """

    model: str
    seed: int
    examples: int
    max_tokens: int
    structured: bool
    at_once: int


@dataclass
class _Waiting:
    """A question that is asked, and the scripts that wait for its reply; ``request`` is None of a judge's."""

    ask: Ask
    key: Key
    request: Request | None
    scripts: list[tuple[int, Script]]


class Asking:
    """A run of scripts; ``outcomes`` are by their place.

    Args:
        scripts: they are begun as there is room for them.
        total: how many there are.
        manner: how the model is asked.
        judges: name of a judge's question -> the judge, which is asked in batches where no more can be begun without it.
        store: of the replies.
        spent: what is counted, and what ends the run.
        title: of the progress bar.
    """

    def __init__(
        self,
        scripts: Iterator[Script],
        total: int,
        *,
        manner: Manner,
        judges: Mapping[str, Named[TextJudge]],
        store: ReplyStore,
        spent: Spent,
        title: str,
    ) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self._scripts, self._total, self._title = enumerate(scripts), total, title
        self._manner, self._judges, self._store, self._spent = manner, judges, store, spent
        self._asked: dict[str, _Waiting] = {}
        self._ready: deque[str] = deque()
        self._unjudged: dict[str, list[str]] = {name: [] for name in judges}
        self._silent, self._silence, self._stop = 0, "", ""

    def run(self, model: Named[LanguageModel]) -> dict[int, Outcome]:
        """Return the outcome of each script; the model is opened if a reply is not known.

        Raises:
            ResourceError: a cap of the budget is reached; what came is kept.
            BackendError: the model refuses, or ``PATIENCE`` requests in a row had no reply, or none at all; what came is kept.
        """
        with tqdm(total=self._total, desc=self._title, unit="text", disable=None) as self._bar:
            if first := self._waiting(1):
                model.open().answer(lambda number: self._after(first, number), self._heard)
            self._bar.set_postfix_str(str(self._spent))
        if self._silence:
            raise BackendError(
                f"The language model did not answer {PATIENCE} requests in a row; the last problem was: {self._silence}\n"
                f"Look at the server and its URL, then run the same again: replies that came are kept ({self._spent})."
            )
        if self._stop:
            raise ResourceError(
                f"The budget negatives.language_model.{self._stop} is reached with {len(self.outcomes):,} of "
                f"{self._total:,} texts ({self._spent}). What came is kept: raise the cap and run the same again."
            )
        assert len(self.outcomes) == self._total
        if self.outcomes and all(outcome.reason == NO_REPLY for outcome in self.outcomes.values()):
            raise BackendError(
                f"The language model replied to nothing that was asked for {self._total:,} texts. Look at the server and its URL, "
                f"then run the same again."
            )
        return self.outcomes

    @property
    def _ended(self) -> bool:
        """Whether no more is asked: the model is silent, or a cap is reached."""
        return bool(self._silence or self._stop)

    def _after(self, first: list[tuple[str, Request]], number: int) -> list[tuple[str, Request]]:
        """Return what waits, and the requests ``first`` before all others, once."""
        found = [first.pop() for _ in first[:number]]
        return found + self._waiting(number - len(found))

    def _waiting(self, number: int) -> list[tuple[str, Request]]:
        """Return at most so many requests, and begin scripts and ask the judges to have them."""
        while not self._ended and len(self._ready) < number:
            room = len(self._asked) < WINDOW * self._manner.at_once
            if room and (begun := next(self._scripts, None)):
                self._advance(*begun, None)
            elif any(self._unjudged.values()):
                self._judge()
            else:
                break
        found: list[tuple[str, Request]] = []
        while not self._ended and self._ready and len(found) < number:
            request = self._asked[self._ready[0]].request
            assert request is not None
            self._stop = self._spent.reserve(request) or ""
            if not self._stop:
                found.append((self._ready.popleft(), request))
        return found

    def _heard(self, name: str, said: Said) -> None:
        """Keep a reply and go on with the scripts that waited for it."""
        waiting = self._asked.pop(name)
        assert waiting.request is not None
        said = self._store.put(waiting.key, said)
        self._spent.release(waiting.request)
        self._spent.note(said, waiting.request)
        self._silent = self._silent + 1 if said.text is None else 0
        if self._silent >= PATIENCE:
            self._silence = self._silence or said.problem or "no reply"
        if self._silence:
            return
        for place, script in waiting.scripts:
            self._advance(place, script, said)

    def _judge(self) -> None:
        """Ask the judges what waits for them, keep what they say, and go on with the scripts that waited."""
        for kind, judge in self._judges.items():
            names, self._unjudged[kind] = self._unjudged[kind], []
            waiting = [self._asked.pop(name) for name in names]
            said = judgements(judge.open(), [one.ask for one in waiting]) if waiting else []
            for one, reply in zip(waiting, said, strict=True):
                kept = self._store.put(one.key, reply)
                for place, script in one.scripts:
                    self._advance(place, script, kept)

    def _advance(self, place: int, script: Script, said: Said | None) -> None:
        """Go on with a script, with all replies that are known, until it ends or must wait."""
        while True:
            try:
                ask = script.send(said) if said else next(script)
            except StopIteration as done:
                self.outcomes[place] = done.value
                self._bar.update()
                self._bar.set_postfix_str(str(self._spent), refresh=False)
                return
            key, request = self._keyed(ask)
            found = self._store.take(key)
            if found is None:
                name = key.reply_id
                if name not in self._asked:
                    self._asked[name] = _Waiting(ask, key, request, [])
                    (self._unjudged[ask.prompt] if request is None else self._ready).append(name)
                self._asked[name].scripts.append((place, script))
                return
            said, before = found
            if request is not None and not before:
                self._spent.note(said, request)
                self._stop = self._stop or self._spent.exceeded() or ""

    def _keyed(self, ask: Ask) -> tuple[Key, Request | None]:
        """Return what a question's reply is kept under, and the request; none of a judge's question."""
        if judge := self._judges.get(ask.prompt):
            return Key(judge.name, f"{ask.prompt}@{VERSION}", "{}", canonical(ask.given), ask.attempt), None
        return keyed(ask, self._manner)


def keyed(ask: Ask, manner: Manner) -> tuple[Key, Request]:
    """Return what a question's reply is kept under, and the request."""
    asked = prompt(ask.prompt)
    given = canonical({"given": ask.given, "failed": ask.failed})
    seed = zlib.crc32(canonical([manner.seed, ask.prompt, given, ask.attempt]).encode()) & 0x7FFFFFFF
    seed = seed if ask.temperature else 0
    parameters = {
        "temperature": ask.temperature,
        "seed": seed,
        "max_tokens": manner.max_tokens,
        "structured": manner.structured,
    }
    version = f"{ask.prompt}@{version_of(ask.prompt, manner.examples)}"
    key = Key(manner.model, version, canonical(parameters), given, ask.attempt)
    messages = asked.messages(ask.given, manner.examples, ask.failed)
    schema = asked.schema_text if manner.structured else None
    return key, Request(messages, ask.temperature, seed, manner.max_tokens, schema)
