"""``--scorer SPEC``: a blind scorer's name, or ``NAME:TARGET`` for one that needs a model.

    length, probe, …             the names in ``BACKENDS["scorer"]``
    vera:FOLDER                  plausibility by Vera (liujch1998/vera)
    cola:FOLDER                  grammar: P(acceptable) of a CoLA classifier, such as the
                                 textattack/distilbert-base-uncased-CoLA of SugarCrepe
    causal_lm:FOLDER             mean log-likelihood per token under a causal language model
    masked_lm:FOLDER             mean pseudo-log-likelihood per token under a masked language model
    embedding_probe:FOLDER       logistic regression on sentence embeddings; takes what ``text:`` takes
    finetuned:FOLDER             an encoder, fine-tuned on the pairs of the other folds

FOLDER is a checkpoint in the format of transformers, or OWNER/REPO on the Hugging Face hub.
"""

from __future__ import annotations

import difflib
from typing import cast

from caramel.blind.scorers import Scorer, checked
from caramel.errors import BackendError
from caramel.registry import BACKENDS, backend


def scorer(spec: str) -> Scorer:
    """Return the blind scorer of a spec, which raises where a score is none (``blind.checked``).

    Raises:
        BackendError: there is no such scorer (the message lists the choices), a target is missing or
            too much, or there is no checkpoint at the target.
    """
    name, colon, target = spec.partition(":")
    plain, with_target = BACKENDS["scorer"], BACKENDS["model_scorer"]
    if name in with_target:
        if not target:
            raise BackendError(f"Scorer {spec!r} needs a model: write {name}:FOLDER or {name}:OWNER/REPO.")
        return checked(spec, cast(Scorer, backend("model_scorer", name)(target)))
    if name in plain and colon:
        raise BackendError(f"Scorer {name!r} takes no target, but {spec!r} gives one: write {name}.")
    if name in plain:
        return checked(spec, cast(Scorer, backend("scorer", name)))
    names = [*plain, *(f"{name}:FOLDER" for name in with_target)]
    near = difflib.get_close_matches(name, [*plain, *with_target], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise BackendError(f"Unknown scorer {spec!r}.{hint} Choices: {', '.join(names)}.")
