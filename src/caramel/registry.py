"""Backend name -> factory, imported only when it is asked for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from caramel.errors import BackendError

# kind -> name -> "module:function". Only this table knows where a backend lives.
BACKENDS: Mapping[str, Mapping[str, str]] = {
    "source": {
        "world": "caramel.sources.world.source:sample_pairs",
        "files": "caramel.sources.files:read_pairs",
    },
    "negatives": {
        "world": "caramel.captions.rules:world_negatives",
        "lexicon": "caramel.captions.lexicon:lexicon_negatives",
        "given": "caramel.captions.given:given_negatives",
    },
    "scorer": {
        "length": "caramel.quality.scorers:length",
        "final_punctuation": "caramel.quality.scorers:final_punctuation",
        "casing": "caramel.quality.scorers:casing",
        "ngram": "caramel.quality.ngram:ngram",
        "probe": "caramel.quality.probe:probe",
    },
    "generator": {
        "pixart": "caramel.training.text_to_image:train_pixart",
        "pretrained": "caramel.images.pipelines:adopt_pipeline",
    },
    "judge": {
        "world": "caramel.images.judges:reading_judge",
        "clip": "caramel.images.judges:clip_judge",
    },
    "benchmark": {
        "instances": "caramel.evaluation.benchmarks.instances:BENCHMARK",
        "sugarcrepe": "caramel.evaluation.benchmarks.sugarcrepe:BENCHMARK",
    },
    "model": {
        "open_clip": "caramel.models.open_clip_models:load_open_clip",
    },
    "model_check": {
        "open_clip": "caramel.models.open_clip_models:missing_open_clip",
    },
    "base": {
        "open_clip": "caramel.training.pretrain:pretrain_base",
        "pretrained": "caramel.models.checkpoints:adopt_pretrained",
    },
}


def location(kind: str, name: str) -> str:
    """Return where backend ``name`` lives, as ``module:function``.

    Raises:
        BackendError: there is no backend of that name; the message lists the choices.
    """
    names = BACKENDS[kind]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise BackendError(f"Unknown {kind} backend {name!r}.{hint} Choices: {', '.join(names)}.")
    return names[name]


def backend(kind: str, name: str) -> Callable[..., Any]:
    """Return the factory of backend ``name``; errors as in ``location``."""
    module, _, function = location(kind, name).partition(":")
    factory: Callable[..., Any] = getattr(import_module(module), function)
    return factory
