"""Load blind scorers by spec (``--scorer SPEC``): a scorer's name, or ``NAME:TARGET`` if it needs a model.

``SCORERS`` holds the names. TARGET is the folder of a checkpoint in the transformers format, or OWNER/REPO on
the Hugging Face hub.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from caramel.blind.scorers import check_scorer
from caramel.errors import BackendError
from caramel.interfaces.scorer import Scorer, ScorerSpec
from caramel.registry import SCORERS
from caramel.runtime.ray.file_transfer import LocalFile

ENCODED = ("embedding_probe", "finetuned")  # scorers that use an encoder


def load_scorer(spec: str, *, both: bool = False) -> Scorer:
    """Return the blind scorer of a spec. It raises a BackendError for an invalid score (``scorers.check_scorer``).

    Args:
        spec: name, or name and target.
        both: whether scorers that see both captions are allowed.

    Raises:
        BackendError: there is no such scorer (the message lists the choices), a target is missing or not
            allowed, or there is no checkpoint at the target.
    """
    name, colon, target = spec.partition(":")
    if name not in SCORERS or (can_see_both(spec) and not both):
        raise _build_unknown_error(spec, both)
    scorer_spec = SCORERS[name]
    if scorer_spec.missing is None and colon:
        raise BackendError(f"Scorer {name!r} takes no target, but {spec!r} gives one: write {name}.")
    if scorer_spec.missing is not None and not target:
        raise BackendError(f"Scorer {spec!r} needs a model: write {name}:FOLDER or {name}:OWNER/REPO.")
    if scorer_spec.missing is not None and (missing := scorer_spec.missing(target)):
        raise BackendError(f"Scorer {spec} cannot be loaded: {'; '.join(missing)}. {scorer_spec.cure}")
    return check_scorer(spec, scorer_spec.load(target))


def mark_local_scorer(spec: str) -> str | LocalFile:
    """Return the spec for use on any machine: a ``LocalFile`` if its model is a folder on this machine.

    The options at the end of a target, as in ``FOLDER?pooling=cls``, are not part of the folder.
    """
    name, _, target = spec.partition(":")
    path = target if Path(target).exists() else re.split("[?#]", target, maxsplit=1)[0]
    return LocalFile(path, f"{name}:", target[len(path) :]) if path and Path(path).exists() else spec


def can_see_both(spec: str) -> bool:
    """Return whether the scorer of a spec sees both captions; False if there is no scorer with that name."""
    name = spec.partition(":")[0]
    return name in SCORERS and SCORERS[name].sees_both


def missing_scorer(spec: str, *, both: bool = False) -> list[str]:
    """Return why the scorer of a spec cannot be loaded: an unknown name or a missing model. Empty if it can."""
    try:
        load_scorer(spec, both=both)
    except BackendError as error:
        return [str(error)]
    return []


def list_scorers() -> list[ScorerSpec]:
    """Return the spec of each of caramel's own scorers, first the scorers that need no model."""
    return [SCORERS[name] for name in SCORERS.targets]


def list_default_scorers(encoder: str | None = None) -> tuple[str, ...]:
    """Return the default blind scorers of an audit: all of caramel's own that need no model.

    Args:
        encoder: an available language-model encoder; scorers that probe and fine-tune it are added. None:
            there is none.
    """
    default = tuple(default.name for default in list_scorers() if default.missing is None)
    return default if encoder is None else (*default, *(f"{name}:{encoder}" for name in ENCODED))


def format_scorers_help() -> list[str]:
    """Return a help line for each scorer: its spec, and what it measures."""
    scorers = list_scorers()
    specs = _format_specs(scorers)
    width = max(map(len, specs))
    lines = [f"{spec:{width}}  {scorer_spec.help}" for spec, scorer_spec in zip(specs, scorers, strict=True)]
    return lines + [f"{plugin.name:{width}}  scorer of {plugin}" for plugin in SCORERS.plugins.values()]


def _format_specs(scorers: Sequence[ScorerSpec]) -> list[str]:
    """Return how each scorer is written on the command line."""
    return [
        scorer_spec.name if scorer_spec.missing is None else f"{scorer_spec.name}:FOLDER"
        for scorer_spec in scorers
    ]


def _build_unknown_error(spec: str, both: bool) -> BackendError:
    """Return the error for an unknown scorer, with the list of choices."""
    choices = [scorer_spec for scorer_spec in list_scorers() if both or not scorer_spec.sees_both]
    names = [*(scorer_spec.name for scorer_spec in choices), *SCORERS.plugins]
    near = difflib.get_close_matches(spec.partition(":")[0], names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    specs = [*_format_specs(choices), *SCORERS.plugins]
    return BackendError(f"Unknown scorer {spec!r}.{hint} Choices: {', '.join(specs)}.")
