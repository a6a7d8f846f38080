"""Check that a server does what a request says: it may refuse or silently ignore min_p and response_format."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tqdm import tqdm

from caramel.errors import BackendError
from caramel.interfaces.language_model import ModelOutput, Request
from caramel.io.readers import try_parse_json
from caramel.models.chat.settings import is_refused
from caramel.utils.text import strip_reasoning

# With min_p = 1 only the likeliest token is left, so that all seeds give one text, at any temperature.
PROBE = Request((("user", "Write ten words that have nothing in common."),), 2.0, 0, 8, None, min_p=1.0)
PROBES = 3  # if all differ, min_p is ignored; rounding errors of a GPU can change one of them
# Parameter of a request -> the param that leaves it out.
CURES: Mapping[str, str] = {
    "min_p": "negatives.language_model.min_p=0.0",
    "top_p": "negatives.language_model.top_p=1.0",
    "response_format": "negatives.language_model.response_schema=false",
}


@dataclass
class ServerChecks:
    """Checks of one run; each is made once, in whichever thread needs it first.

    Attributes:
        name: the server's URL, for messages.
    """

    name: str
    _min_p_is_applied: bool = False
    _schema_is_checked: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check_min_p(self, fetch_output: Callable[[Request], ModelOutput | None]) -> None:
        """Send ``PROBES`` short requests, unless this was done before; they are not stored.

        Args:
            fetch_output: sends a request; None if the run was stopped.

        Raises:
            BackendError: the server ignores min_p.
        """
        with self._lock:
            if self._min_p_is_applied:
                return
            outputs = [fetch_output(PROBE._replace(seed=seed)) for seed in range(PROBES)]
            texts = {output.text for output in outputs if output is not None and output.text is not None}
            if len(texts) == PROBES:
                raise BackendError(
                    f"The chat endpoint {self.name!r} ignores min_p: with min_p = 1 all seeds must give one "
                    f"text, but it answered {sorted(texts)}. Use a server that has min_p, such as vLLM or "
                    f"llama.cpp, or set {CURES['min_p']} and negatives.language_model.temperature to at most 1."
                )
            self._min_p_is_applied = True

    def warn_of_ignored_schema(self, request: Request, output: ModelOutput) -> None:
        """Print one message if a complete answer to a request with a schema is not a JSON object."""
        if request.schema is None or output.finish_reason != "stop" or not output.text:
            return
        with self._lock:
            if self._schema_is_checked:
                return
            if not isinstance(try_parse_json(strip_reasoning(output.text)), dict):
                self._schema_is_checked = True
                tqdm.write(
                    f"The chat endpoint {self.name!r} does not enforce response_format: it answered "
                    f"{output.text!r:.100}. Its answers are parsed as without "
                    f"negatives.language_model.response_schema.",
                    file=sys.stderr,
                )

    def check_refusal(self, problem: str) -> None:
        """Raise a BackendError if a server's message refuses a parameter that the params can leave out."""
        for parameter, cure in CURES.items():
            if is_refused(parameter, problem):
                raise BackendError(
                    f"The chat endpoint {self.name!r} does not support {parameter}: {problem}\nSet {cure}."
                )
