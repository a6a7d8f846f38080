"""Load judges of images by spec: a judge's name, or ``NAME:TARGET`` if it is a model of its own."""

from __future__ import annotations

from typing import Any

from caramel.errors import BackendError
from caramel.interfaces.judge import Judge
from caramel.registry import JUDGES

WITH_TARGET = ("itm", "vqascore", "questions")  # judges that need FOLDER or OWNER/REPO


def load_judge(spec: str, **settings: Any) -> Judge:
    """Return the judge of a spec; the settings are those of ``JudgeFactory``.

    Raises:
        BackendError: there is no such judge, a target is missing or not allowed, or the model cannot be loaded.
    """
    name, _, target = spec.partition(":")
    if problems := check_judge_spec(spec):
        raise BackendError("; ".join(problems))
    return JUDGES[name](**settings, target=target)


def check_judge_spec(spec: str) -> list[str]:
    """Return what is wrong with a spec's form; empty if nothing is. No model is looked at.

    Raises:
        BackendError: there is no such judge; the message lists the choices.
    """
    name, colon, target = spec.partition(":")
    JUDGES.get_target(name)
    if name in WITH_TARGET and not target:
        return [f"judge {spec!r} needs a model: write {name}:FOLDER or {name}:OWNER/REPO"]
    if name == "questions" and not all(target.rpartition("@")):
        return [
            f"judge {spec!r} needs a model and a spaCy model that parses captions: write questions:MODEL@SPACY"
        ]
    if name not in (*WITH_TARGET, *JUDGES.plugins) and colon:
        return [f"judge {name!r} takes no target, but {spec!r} gives one: write {name}"]
    return []


def list_judge_problems(spec: str) -> list[str]:
    """Return why the judge of a spec cannot be loaded, without loading it; empty if it can."""
    name, _, target = spec.partition(":")
    if (problems := check_judge_spec(spec)) or name not in WITH_TARGET:
        return problems
    from caramel.models.transformers.generative import VQASCORE
    from caramel.models.transformers.matching import ITM

    model = target.rpartition("@")[0] if name == "questions" else target
    return (ITM if name == "itm" else VQASCORE).missing(model)
