"""Scene graph -> caption by a language model, for graphs that a template says badly (Ma et al. 2023, appendix A.3).

A caption that omits an atom is shown to the model with what it lacks, and asked for again, a bounded number of times. Every
reply is kept, and what is known is not asked again (``sources.captions.llm``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from caramel.crepe.caption_template import Caption, by_template, located
from caramel.errors import ResourceError
from caramel.interfaces.language_model import LanguageModel
from caramel.interfaces.scene_graph import SceneGraph
from caramel.sources.captions.llm.budget import Budget, Spent
from caramel.sources.captions.llm.conversation import Ask, Outcome, Script, answered, field
from caramel.sources.captions.llm.models import Named, canonical
from caramel.sources.captions.llm.response_cache import open_replies
from caramel.sources.captions.llm.scheduler import Asking, Manner
from caramel.sources.captions.prompts.prompt_files import OF_GRAPHS, Failed

TEMPLATE = 4  # atoms that the template says
SHOWN = 5  # examples
ATTEMPTS = 3
MAX_TOKENS = 200  # of an answer
AGAIN = 1.0  # temperature after the first attempt: at 0 the same would come
OMITTED = "the model's caption omits an atom"

Tell = Callable[[Sequence[SceneGraph]], list[Caption | str]]  # a caption of each graph, or why there is none


def templates(graphs: Sequence[SceneGraph]) -> list[Caption | str]:
    """Return the caption of each graph by the template."""
    return [by_template(graph) for graph in graphs]


def say(graph: SceneGraph) -> Script:
    """Ask for a caption of a graph until one says all of its atoms."""
    failed: tuple[Failed, ...] = ()
    for attempt in range(1, ATTEMPTS + 1):
        ask = Ask(OF_GRAPHS, listed(graph), attempt, AGAIN if failed else 0.0, failed)
        answer = yield from answered(ask)
        if isinstance(answer, str):
            return Outcome(None, attempt, answer, ())
        text = field(answer, "sentence")
        found = located(text, graph)
        if isinstance(found, Caption):
            return Outcome(text, attempt, "", ())
        failed = (*failed, Failed(text, f"it does not say {found!r}"))
    return Outcome(None, ATTEMPTS, OMITTED, ())


def listed(graph: SceneGraph) -> dict[str, str]:
    """Return what the prompt gives: "car (red, small); box" and "car above box"."""
    objects = [
        f"{node.name} ({', '.join(node.attributes)})" if node.attributes else node.name
        for node in graph.nodes
    ]
    relations = [f"{graph.nodes[e.subject].name} {e.name} {graph.nodes[e.object].name}" for e in graph.edges]
    return {"objects": "; ".join(objects), "relations": "; ".join(relations) or "none"}


def told_by(
    model: LanguageModel, store: Path, *, seed: int, at_once: int, max_requests: int | None = None
) -> Tell:
    """Return what writes captions of more than ``TEMPLATE`` atoms by a model, and others by the template.

    Args:
        model: that is asked.
        store: file of the replies; those that are there are taken.
        seed: of the draw of words.
        at_once: requests under way.
        max_requests: of a call, those among them whose replies are there; None: no cap.

    Raises:
        BackendError: when it is called: the model refuses, or does not answer; what came is kept.
        ResourceError: when it is called: ``max_requests`` is reached; what came is kept.
    """
    own = Named(canonical(model.identity), lambda: model)
    manner = Manner(own.name, seed, SHOWN, MAX_TOKENS, False, at_once)

    def tell(graphs: Sequence[SceneGraph]) -> list[Caption | str]:
        asked = [graph for graph in graphs if len(graph.places()) > TEMPLATE]
        with open_replies(store) as replies:
            asking = Asking(
                (say(graph) for graph in asked),
                len(asked),
                manner=manner,
                judges={},
                store=replies,
                spent=Spent(Budget(0.0, 0.0, max_requests, None, None)),
                title="captions",
            )
            try:
                outcomes = asking.run(own)
            except ResourceError as error:  # which names the cap as the stage's params do
                name = "budget negatives.language_model.max_requests ="
                raise ResourceError(str(error).replace(name, "cap --max-requests")) from error
        said = (outcomes[place] for place in range(len(asked)))
        return [
            _caption(next(said), graph) if len(graph.places()) > TEMPLATE else by_template(graph)
            for graph in graphs
        ]

    return tell


def _caption(outcome: Outcome, graph: SceneGraph) -> Caption | str:
    return outcome.reason if outcome.text is None else located(outcome.text, graph)
