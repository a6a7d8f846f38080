"""Load judges of images by spec: a judge's name, or ``NAME:TARGET`` if it is a model of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caramel.errors import BackendError
from caramel.interfaces.judge import Judge
from caramel.registry import JUDGES
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.utils.packages import NO_SPACY_MODEL, is_package_or_folder

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

    model, _, parser = target.rpartition("@") if name == "questions" else (target, "", "")
    problems = (ITM if name == "itm" else VQASCORE).missing(model)
    if parser and not is_package_or_folder(parser):
        problems = [*problems, f"spaCy model {parser!r}: {NO_SPACY_MODEL}"]
    return problems


def split_judge_spec(spec: str) -> list[str | LocalFile]:
    """Return the parts of a spec, which joined are the spec; files and folders of this machine are marked as such."""
    name, colon, target = spec.partition(":")
    model, at, parser = target.rpartition("@") if name == "questions" else (target, "", "")
    paths = [LocalFile(part) if part and Path(part).exists() else part for part in (model, parser)]
    return [name + colon, paths[0], at, paths[1]]
