"""Parse captions into scene graphs by a sequence-to-sequence model, which writes them as text.

For example, the model writes "( man , on , horse ) , ( horse , is , brown )". The form is that of FACTUAL's
flan-T5 models (Li et al. 2023): three parts in brackets, where "is" gives an attribute. Objects with the same
name are one object, unless the name is related to itself: "( zebra , follow , zebra )" means two objects. 18
of the 1,508 captions of FACTUAL's random test split have such a relation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from caramel.errors import BackendError
from caramel.interfaces.scene_graph import Atom, Edge, GraphParser, GraphParserSpec, Node, SceneGraph

TASK = "Generate Scene Graph: "  # the prefix with which these models were trained
BATCH = 32  # captions
LENGTH = 512  # tokens of a caption that are read
MOST = 256  # largest number of tokens of a graph
ATTRIBUTE = "is"
_BRACKETS = re.compile(r"\(([^()]*)\)")


def load_seq2seq_parser(target: str, atoms: frozenset[Atom]) -> GraphParser:
    """Return a parser that uses the model in a folder; ``atoms`` is not needed.

    Raises:
        BackendError: the folder is missing, or its model is invalid or of another type.
        ResourceError: the model does not fit into memory.
    """
    import torch
    from transformers import AutoModelForSeq2SeqLM

    from caramel.models.devices import resolve_device
    from caramel.models.loading.files import translate_load_errors
    from caramel.models.transformers.transformers_files import load_pretrained, load_tokenizer

    if not Path(target).is_dir():
        raise BackendError(
            f"seq2seq:{target}: give the folder of a sequence-to-sequence model of transformers."
        )
    with translate_load_errors(target):
        model = load_pretrained(AutoModelForSeq2SeqLM, target, device=resolve_device("auto"))
        tokenizer = load_tokenizer(target)

    def parse_texts(texts: Sequence[str]) -> list[SceneGraph]:
        graphs: list[SceneGraph] = []
        for start in range(0, len(texts), BATCH):
            prompts = [TASK + text for text in texts[start : start + BATCH]]
            inputs = tokenizer(prompts, return_tensors="pt", padding=True, truncation=True, max_length=LENGTH)
            with torch.inference_mode():
                output_ids = model.generate(
                    **{name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")},
                    max_new_tokens=MOST,
                    do_sample=False,
                    num_beams=1,
                )
            graphs += [
                read_graph(text) for text in tokenizer.batch_decode(output_ids, skip_special_tokens=True)
            ]
        return graphs

    return parse_texts


def read_graph(text: str) -> SceneGraph:
    """Return the graph that a model wrote; parts of another form are left out.

    If a name is related to itself, there are two objects: the first has the attributes and all other
    relations.
    """
    looks: dict[str, dict[str, None]] = {}
    related: dict[tuple[str, str, str], None] = {}
    for inner in _BRACKETS.findall(text.lower()):
        parts = [" ".join(part.split()) for part in inner.split(",")]
        if not all(parts) or len(parts) not in (1, 3):
            continue
        looks.setdefault(parts[0], {})
        if len(parts) == 1:
            continue
        if parts[1] == ATTRIBUTE:
            looks[parts[0]][parts[2]] = None
        else:
            looks.setdefault(parts[2], {})
            related[parts[0], parts[1], parts[2]] = None
    second = dict.fromkeys(subject for subject, _, other in related if subject == other)
    nodes = [Node(name, tuple(of)) for name, of in looks.items()] + [Node(name) for name in second]
    first_indices = {name: index for index, name in enumerate(looks)}
    second_indices = {name: len(looks) + index for index, name in enumerate(second)}
    edges = (
        Edge(first_indices[a], name, second_indices[b] if a == b else first_indices[b])
        for a, name, b in related
    )
    return SceneGraph(tuple(nodes), tuple(edges))


SEQ2SEQ = GraphParserSpec(
    "seq2seq",
    load_seq2seq_parser,
    lambda target: {name: version(name) for name in ("torch", "transformers")},
    gpu=True,
)
