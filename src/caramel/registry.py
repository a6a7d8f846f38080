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
        "length": "caramel.quality.surface:length",
        "words": "caramel.quality.surface:words",
        "tokens": "caramel.quality.surface:tokens",
        "final_punctuation": "caramel.quality.surface:final_punctuation",
        "casing": "caramel.quality.surface:casing",
        "digits": "caramel.quality.surface:digits",
        "articles": "caramel.quality.surface:articles",
        "rare_words": "caramel.quality.surface:rare_words",
        "ngram": "caramel.quality.ngram:ngram",
        "kneser_ney": "caramel.quality.kneser_ney:kneser_ney",
        "char_ngram": "caramel.quality.char_ngram:char_ngram",
        "probe": "caramel.quality.probe:probe",
        "shrunk_probe": "caramel.quality.probe:shrunk_probe",
        "char_probe": "caramel.quality.probe:char_probe",
    },
    "pair_scorer": {
        "edit_probe": "caramel.quality.probe:edit_probe",
    },
    "model_scorer": {
        "vera": "caramel.quality.language_models:vera",
        "cola": "caramel.quality.language_models:cola",
        "causal_lm": "caramel.quality.language_models:causal_lm",
        "masked_lm": "caramel.quality.language_models:masked_lm",
        "embedding_probe": "caramel.quality.embedding_probe:embedding_probe",
        "finetuned": "caramel.quality.finetuned:finetuned",
    },
    "generator": {
        "pixart": "caramel.training.text_to_image:train_pixart",
        "pretrained": "caramel.images.pipelines:adopt_pipeline",
    },
    "parser": {
        "world": "caramel.quality.world_trees:world_parser",
        "given": "caramel.quality.parses:given_parser",
    },
    "judge": {
        "world": "caramel.images.judges:reading_judge",
        "clip": "caramel.images.judges:clip_judge",
    },
    "benchmark": {
        "instances": "caramel.evaluation.benchmarks.instances:BENCHMARK",
        "sugarcrepe": "caramel.evaluation.benchmarks.sugarcrepe:BENCHMARK",
        "sugarcrepe_pp": "caramel.evaluation.benchmarks.sugarcrepe_pp:BENCHMARK",
        "bivlc": "caramel.evaluation.benchmarks.bivlc:BENCHMARK",
        "winoground": "caramel.evaluation.benchmarks.winoground:BENCHMARK",
        "colorswap": "caramel.evaluation.benchmarks.colorswap:BENCHMARK",
        "eqben": "caramel.evaluation.benchmarks.eqben:BENCHMARK",
        "cola": "caramel.evaluation.benchmarks.cola:BENCHMARK",
        "natural_bench": "caramel.evaluation.benchmarks.natural_bench:BENCHMARK",
        "crepe_systematicity": "caramel.evaluation.benchmarks.crepe_systematicity:BENCHMARK",
        "crepe_productivity": "caramel.evaluation.benchmarks.crepe_productivity:BENCHMARK",
        "crepe_retrieval": "caramel.evaluation.benchmarks.crepe_retrieval:BENCHMARK",
        "vg_relation": "caramel.evaluation.benchmarks.aro:VG_RELATION",
        "vg_attribution": "caramel.evaluation.benchmarks.aro:VG_ATTRIBUTION",
        "coco_order": "caramel.evaluation.benchmarks.aro:COCO_ORDER",
        "flickr30k_order": "caramel.evaluation.benchmarks.aro:FLICKR30K_ORDER",
        "coco_retrieval": "caramel.evaluation.benchmarks.retrieval:COCO",
        "flickr30k_retrieval": "caramel.evaluation.benchmarks.retrieval:FLICKR30K",
        "zero_shot": "caramel.evaluation.benchmarks.zero_shot:BENCHMARK",
        "vl_checklist": "caramel.evaluation.benchmarks.vl_checklist:BENCHMARK",
        "svo_probes": "caramel.evaluation.benchmarks.svo_probes:BENCHMARK",
        "valse": "caramel.evaluation.benchmarks.valse:BENCHMARK",
        "whatsup_a": "caramel.evaluation.benchmarks.whatsup:WHATSUP_A",
        "whatsup_b": "caramel.evaluation.benchmarks.whatsup:WHATSUP_B",
        "coco_spatial_one": "caramel.evaluation.benchmarks.whatsup:COCO_SPATIAL_ONE",
        "coco_spatial_two": "caramel.evaluation.benchmarks.whatsup:COCO_SPATIAL_TWO",
        "gqa_spatial_one": "caramel.evaluation.benchmarks.whatsup:GQA_SPATIAL_ONE",
        "gqa_spatial_two": "caramel.evaluation.benchmarks.whatsup:GQA_SPATIAL_TWO",
        "mmvp": "caramel.evaluation.benchmarks.mmvp:BENCHMARK",
    },
    "model": {
        "open_clip": "caramel.models.open_clip_models:load_open_clip",
        "dual": "caramel.models.transformers_dual:load_dual",
        "itm": "caramel.models.matching_heads:load_itm",
        "text": "caramel.models.text_encoders:load_text",
        "vqascore": "caramel.models.generative:load_vqascore",
        "vgptscore": "caramel.models.generative:load_vgptscore",
        "vgptscore_blind": "caramel.models.generative:load_vgptscore_blind",
        "vgptscore_noise": "caramel.models.generative:load_vgptscore_noise",
        "blind": "caramel.models.blind_models:load_blind",
        "chat": "caramel.models.chat:load_chat",
    },
    "model_check": {
        "open_clip": "caramel.models.open_clip_models:missing_open_clip",
        "dual": "caramel.models.transformers_dual:missing_dual",
        "itm": "caramel.models.matching_heads:missing_itm",
        "text": "caramel.models.text_encoders:missing_text",
        "vqascore": "caramel.models.generative:missing_generative",
        "vgptscore": "caramel.models.generative:missing_generative",
        "vgptscore_blind": "caramel.models.generative:missing_generative",
        "vgptscore_noise": "caramel.models.generative:missing_generative",
        "blind": "caramel.models.blind_models:missing_blind",
        "chat": "caramel.models.chat:missing_chat",
    },
    # What keeps a spec of the params from being loaded, said without loading it.
    "check": {
        "scorer": "caramel.models.blind_models:missing_blind",
        "model": "caramel.models.specs:missing_of",
    },
    "base": {
        "open_clip": "caramel.training.pretrain:pretrain_base",
        "pretrained": "caramel.models.open_clip_models:adopt_pretrained",
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
