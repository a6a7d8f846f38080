"""Judge how well an image fits a caption by a model that looks at both: a matching head or a generative model.

    itm:FOLDER        P(match | image, caption) of BLIP's, BLIP-2's or ViLT's matching head
    vqascore:FOLDER   P(Yes | image, question whether it shows the caption) (Lin et al., ECCV 2024)
    questions:FOLDER@SPACY
                      the lowest P(Yes) of one question for each object, attribute and relation of the caption, as a
                      hard negative is false in a single one of them (after TIFA, Hu et al., ICCV 2023, which takes
                      the mean). A spaCy model parses the caption

Scores of distinct images and texts are stored in ``work/judges`` and computed once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from caramel.interfaces.judge import MatchScores
from caramel.interfaces.model import Floats, Matcher
from caramel.interfaces.scene_graph import GraphParser
from caramel.io.keys import compute_image_key, compute_pair_key
from caramel.models.devices import resolve_device
from caramel.models.embedding_cache import EmbeddingCache, build_vector_table
from caramel.registry import GRAPH_PARSERS
from caramel.runtime.code_deps import compute_code_version
from caramel.runtime.last_result import keep_last, stamp_files

STORE = "work/judges"
PAIRS_PER_SHARD = 256  # unit of resuming
Shard = list[list[Any]]  # [image's number, its content key, texts]; the encoded file is added when it is used


class MatchingJudge:
    """A model that looks at image and text together: fit is a probability.

    Args:
        name: name of the judge: itm, vqascore or questions.
        family: family of the model: itm or vqascore.
        target: folder or OWNER/REPO of the model.
        device: auto, cpu, cuda or cuda:N.
        split: caption -> texts that must all be true of the image.
    """

    def __init__(
        self, name: str, family: str, target: str, device: str, split: Callable[[str], Sequence[str]]
    ) -> None:
        self.name = name
        self._split = split
        self._settings = {"family": family, "target": target, "device": resolve_device(device)}
        identity = _load_matcher(**self._settings).identity
        self._store = EmbeddingCache(STORE, identity, compute_code_version(__name__))

    def score_match(self, images: Sequence[bytes], captions: Sequence[str]) -> MatchScores:
        """Return the lowest probability among the texts of each caption, (n,) in [0, 1]."""
        texts_of = {caption: list(dict.fromkeys(self._split(caption))) for caption in dict.fromkeys(captions)}
        image_keys = [compute_image_key(data, None) for data in images]
        first: dict[bytes, tuple[int, bytes, str]] = {}
        of_row: list[list[bytes]] = []
        for index, (image_key, caption) in enumerate(zip(image_keys, captions, strict=True)):
            keys = [compute_pair_key(image_key, text) for text in texts_of[caption]]
            of_row.append(keys)
            for key, text in zip(keys, texts_of[caption], strict=True):
                first.setdefault(key, (index, image_key, text))
        if not first:
            return np.zeros(0)
        # Pairs of equal images are adjacent, so that a matcher encodes each image once.
        pair_keys = sorted(first, key=lambda key: (first[key][1], first[key][2]))
        stored = self._store.compute_vectors(
            "pairs",
            pair_keys,
            score_pairs,
            lambda todo: _build_shards([first[pair_keys[i]] for i in todo]),
            bring=lambda shard: [[*item, images[item[0]]] for item in shard],
            settings=self._settings,
            executor="inline",
            title=f"judge {self.name}: {len(pair_keys)} pairs",
        ).vectors[:, 0]
        score_of = dict(zip(pair_keys, np.asarray(stored).tolist(), strict=True))
        return np.array([min(score_of[key] for key in keys) for keys in of_row], np.float64)

    def is_ambiguous(
        self, negative: MatchScores, positive: MatchScores, margin: float
    ) -> npt.NDArray[np.bool_]:
        """Return where the negative caption's fit does not exceed the positive's by more than ``margin``."""
        return negative - positive <= margin


def _build_shards(pairs: Sequence[tuple[int, bytes, str]]) -> list[Shard]:
    """Return the (image's number, image's key, text) of pairs in chunks, with the texts of each image together."""
    chunks = [pairs[start : start + PAIRS_PER_SHARD] for start in range(0, len(pairs), PAIRS_PER_SHARD)]
    return [
        [
            [of_image[0][0], key.hex(), [text for _, _, text in of_image]]
            for key, of_image in ((key, list(rows)) for key, rows in itertools.groupby(chunk, itemgetter(1)))
        ]
        for chunk in chunks
    ]


def score_pairs(shard: list[list[Any]], *, family: str, target: str, device: str) -> pa.Table:
    """Return keys and probabilities of one shard; an item is an image's number, its key, its texts and its file."""
    texts = list(dict.fromkeys(text for item in shard for text in item[2]))
    number_of = {text: number for number, text in enumerate(texts)}
    pairs = [(index, text) for index, item in enumerate(shard) for text in item[2]]
    scores = _load_matcher(family, target, device).match_pairs(
        [item[3] for item in shard],
        texts,
        np.array([index for index, _ in pairs], np.int64),
        np.array([number_of[text] for _, text in pairs], np.int64),
        None,
    )
    keys = [compute_pair_key(bytes.fromhex(shard[index][1]), text) for index, text in pairs]
    return build_vector_table(keys, _compute_probabilities(family, scores)[:, None])


def _compute_probabilities(family: str, scores: Floats) -> Floats:
    """Return probabilities (n,) of a head's logits, or of a generative model's log-probabilities."""
    log_probability = -np.logaddexp(0.0, -scores) if family == "itm" else scores
    probabilities: Floats = np.exp(np.minimum(log_probability, 0.0))
    return probabilities


@keep_last(lambda family, target, device: stamp_files(target))
def _load_matcher(family: str, target: str, device: str) -> Matcher:
    """Return the model, loaded once while its files do not change."""
    # Named here and not by the registry's table, so that stages do not depend on the code of every family.
    from caramel.models.transformers.generative import VQASCORE
    from caramel.models.transformers.matching import ITM

    load = {"itm": ITM, "vqascore": VQASCORE}[family].load
    return cast(Matcher, load(target, device=device, precision="fp32", name=f"{family}:{target}"))


def build_questions(caption: str, parse: GraphParser) -> list[str]:
    """Return one short text for each object without attributes, attribute and relation of a caption.

    A caption in which the parser finds nothing is one text itself.
    """
    (graph,) = parse([caption])
    texts = [node.name for node in graph.nodes if not node.attributes]
    texts += [f"{attribute} {node.name}" for node in graph.nodes for attribute in node.attributes]
    texts += [
        f"{graph.nodes[edge.subject].name} {edge.name} {graph.nodes[edge.object].name}"
        for edge in graph.edges
    ]
    return texts or [caption]


def load_itm_judge(*, target: str, device: str, **unused: object) -> MatchingJudge:
    """Return the judge of a matching head."""
    return MatchingJudge("itm", "itm", target, device, lambda caption: [caption])


def load_vqascore_judge(*, target: str, device: str, **unused: object) -> MatchingJudge:
    """Return the judge that asks a generative model about the whole caption."""
    return MatchingJudge("vqascore", "vqascore", target, device, lambda caption: [caption])


def load_questions_judge(*, target: str, device: str, **unused: object) -> MatchingJudge:
    """Return the judge that asks about each part of the caption; the target is MODEL@SPACY."""
    model, _, parser = target.rpartition("@")
    parse = GRAPH_PARSERS["spacy"].load(parser, frozenset())
    return MatchingJudge("questions", "vqascore", model, device, partial(build_questions, parse=parse))
