"""Write captions of scene graphs by a language model, for graphs that the template describes badly.

The method is that of Ma et al. 2023, appendix A.3. If a caption omits an atom, the model is shown the
omission and asked again, a bounded number of times. All responses are cached (``sources.captions.llm``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from caramel.crepe.caption_template import Caption, locate_atoms, write_template_caption
from caramel.errors import ResourceError
from caramel.interfaces.connections import MaxConnections
from caramel.interfaces.language_model import LanguageModel
from caramel.interfaces.scene_graph import SceneGraph
from caramel.sources.captions.llm.budget import Budget, Usage
from caramel.sources.captions.llm.conversation import (
    Outcome,
    PromptInput,
    Script,
    ask_until_valid,
    get_text_field,
)
from caramel.sources.captions.llm.models import NamedModel, dump_canonical_json
from caramel.sources.captions.llm.response_cache import open_replies
from caramel.sources.captions.llm.scheduler import RequestSettings, Scheduler
from caramel.sources.captions.prompts.prompt_files import OF_GRAPHS, FailedAnswer, format_failed_answer

TEMPLATE = 4  # largest number of atoms for which the template is used
MOST_ATOMS = 12  # largest number of atoms that the prompt has examples for; more are shown those
SHOWN = 5  # examples in a prompt: those of the graph's number of atoms
ATTEMPTS = 3
MAX_TOKENS = 200  # largest number of tokens of an answer
AGAIN = 1.0  # temperature after the first attempt: 0 would give the same text
OMITTED = "the model's caption omits an atom"

CaptionWriter = Callable[
    [Sequence[SceneGraph]], list[Caption | str]
]  # a caption of each graph, or the reason why there is none


def write_template_captions(graphs: Sequence[SceneGraph]) -> list[Caption | str]:
    """Return the caption of each graph by the template."""
    return [write_template_caption(graph) for graph in graphs]


def ask_for_caption(graph: SceneGraph) -> Script:
    """Request captions of a graph until one contains all of its atoms."""
    failed: tuple[FailedAnswer, ...] = ()
    for attempt in range(1, ATTEMPTS + 1):
        name = f"{OF_GRAPHS}/{min(len(graph.list_positions()), MOST_ATOMS)}"
        prompt_input = PromptInput(name, format_graph(graph), attempt, AGAIN if failed else 0.0, failed)
        answer = yield from ask_until_valid(prompt_input)
        if isinstance(answer, str):
            return Outcome(None, attempt, answer, ())
        text = get_text_field(answer, "sentence")
        caption = locate_atoms(text, graph)
        if isinstance(caption, Caption):
            return Outcome(text, attempt, "", ())
        failed = (*failed, FailedAnswer(format_failed_answer(answer), f"it does not say {caption!r}"))
    return Outcome(None, ATTEMPTS, OMITTED, ())


def format_graph(graph: SceneGraph) -> dict[str, str]:
    """Return the inputs of the prompt, such as "car (red, small); box" and "car above box".

    Objects of one name are numbered, as published: "window1", "window2".
    """
    ranks = graph.list_namesakes()
    names = [f"{node.name}{ranks[i] + 1}" if i in ranks else node.name for i, node in enumerate(graph.nodes)]
    objects = [
        f"{name} ({', '.join(node.attributes)})" if node.attributes else name
        for name, node in zip(names, graph.nodes, strict=True)
    ]
    relations = [f"{names[edge.subject]} {edge.name} {names[edge.object]}" for edge in graph.edges]
    return {"objects": "; ".join(objects), "relations": "; ".join(relations) or "none"}


def create_caption_writer(
    model: LanguageModel,
    store: Path,
    *,
    seed: int,
    max_connections: MaxConnections,
    max_requests: int | None = None,
) -> CaptionWriter:
    """Return a function that writes captions of scene graphs.

    Graphs of more than ``TEMPLATE`` atoms are written by a model, others by the template.

    Args:
        model: the language model.
        store: file of responses; responses in it are reused.
        seed: seed of the model's random draws.
        max_connections: largest number of concurrent requests, as the model was loaded with.
        max_requests: largest number of requests of a call, including those with cached responses; None: no
            cap.

    Raises:
        BackendError: raised by the returned function if the model refuses or does not respond. Responses so
            far are saved.
        ResourceError: raised by the returned function if ``max_requests`` is reached. Responses so far are
            saved.
    """
    named_model = NamedModel(dump_canonical_json(model.identity), lambda: model)
    request_settings = RequestSettings(named_model.name, seed, SHOWN, MAX_TOKENS, False, max_connections)

    def write_captions(graphs: Sequence[SceneGraph]) -> list[Caption | str]:
        llm_graphs = [graph for graph in graphs if len(graph.list_positions()) > TEMPLATE]
        with open_replies(store) as replies:
            scheduler = Scheduler(
                (ask_for_caption(graph) for graph in llm_graphs),
                len(llm_graphs),
                request_settings=request_settings,
                judges={},
                store=replies,
                spent=Usage(Budget(0.0, 0.0, max_requests, None, None)),
                title="captions",
            )
            try:
                outcomes = scheduler.run(named_model)
            except ResourceError as error:  # it names the cap by the stage's param
                name = "budget negatives.language_model.max_requests ="
                raise ResourceError(str(error).replace(name, "cap --max-requests")) from error
        llm_outcomes = (outcomes[index] for index in range(len(llm_graphs)))
        return [
            _locate_caption(next(llm_outcomes), graph)
            if len(graph.list_positions()) > TEMPLATE
            else write_template_caption(graph)
            for graph in graphs
        ]

    return write_captions


def _locate_caption(outcome: Outcome, graph: SceneGraph) -> Caption | str:
    return outcome.reason if outcome.text is None else locate_atoms(outcome.text, graph)
