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
        "world": "caramel.sources.world.sampling:sample_pairs",
        "files": "caramel.sources.folders:read_pairs",
    },
    "negatives": {
        "world": "caramel.captions.rules:world_negatives",
        "lexicon": "caramel.captions.lexicon:lexicon_negatives",
        "given": "caramel.captions.given:given_negatives",
    },
    "scorer": {
        "length": "caramel.blind.surface:length",
        "words": "caramel.blind.surface:words",
        "tokens": "caramel.blind.surface:tokens",
        "final_punctuation": "caramel.blind.surface:final_punctuation",
        "casing": "caramel.blind.surface:casing",
        "digits": "caramel.blind.surface:digits",
        "articles": "caramel.blind.surface:articles",
        "rare_words": "caramel.blind.surface:rare_words",
        "ngram": "caramel.blind.ngram:ngram",
        "kneser_ney": "caramel.blind.kneser_ney:kneser_ney",
        "char_ngram": "caramel.blind.char_ngram:char_ngram",
        "probe": "caramel.blind.probe:probe",
        "shrunk_probe": "caramel.blind.probe:shrunk_probe",
        "char_probe": "caramel.blind.probe:char_probe",
    },
    "pair_scorer": {
        "edit_probe": "caramel.blind.probe:edit_probe",
    },
    "model_scorer": {
        "vera": "caramel.blind.language_models:vera",
        "cola": "caramel.blind.language_models:cola",
        "causal_lm": "caramel.blind.language_models:causal_lm",
        "masked_lm": "caramel.blind.language_models:masked_lm",
        "embedding_probe": "caramel.blind.embedding_probe:embedding_probe",
        "finetuned": "caramel.blind.finetuned:finetuned",
    },
    "generator": {
        "pixart": "caramel.training.text_to_image:train_pixart",
        "pretrained": "caramel.images.pipelines:adopt_pipeline",
    },
    "parser": {
        "world": "caramel.audit.similarity.world_trees:world_parser",
        "given": "caramel.audit.similarity.parses:given_parser",
    },
    "judge": {
        "world": "caramel.images.judges:reading_judge",
        "clip": "caramel.images.judges:clip_judge",
    },
    "benchmark": {
        "instances": "caramel.benchmarks.readers.instances:BENCHMARK",
        "sugarcrepe": "caramel.benchmarks.readers.sugarcrepe:BENCHMARK",
        "sugarcrepe_pp": "caramel.benchmarks.readers.sugarcrepe_pp:BENCHMARK",
        "bivlc": "caramel.benchmarks.readers.bivlc:BENCHMARK",
        "winoground": "caramel.benchmarks.readers.winoground:BENCHMARK",
        "colorswap": "caramel.benchmarks.readers.colorswap:BENCHMARK",
        "eqben": "caramel.benchmarks.readers.eqben:BENCHMARK",
        "cola": "caramel.benchmarks.readers.cola:BENCHMARK",
        "natural_bench": "caramel.benchmarks.readers.natural_bench:BENCHMARK",
        "crepe_systematicity": "caramel.benchmarks.readers.crepe_systematicity:BENCHMARK",
        "crepe_productivity": "caramel.benchmarks.readers.crepe_productivity:BENCHMARK",
        "crepe_retrieval": "caramel.benchmarks.readers.crepe_retrieval:BENCHMARK",
        "vg_relation": "caramel.benchmarks.readers.aro:VG_RELATION",
        "vg_attribution": "caramel.benchmarks.readers.aro:VG_ATTRIBUTION",
        "coco_order": "caramel.benchmarks.readers.aro:COCO_ORDER",
        "flickr30k_order": "caramel.benchmarks.readers.aro:FLICKR30K_ORDER",
        "coco_retrieval": "caramel.benchmarks.readers.retrieval:COCO",
        "flickr30k_retrieval": "caramel.benchmarks.readers.retrieval:FLICKR30K",
        "zero_shot": "caramel.benchmarks.readers.zero_shot:BENCHMARK",
        "vl_checklist": "caramel.benchmarks.readers.vl_checklist:BENCHMARK",
        "svo_probes": "caramel.benchmarks.readers.svo_probes:BENCHMARK",
        "valse": "caramel.benchmarks.readers.valse:BENCHMARK",
        "whatsup_a": "caramel.benchmarks.readers.whatsup:WHATSUP_A",
        "whatsup_b": "caramel.benchmarks.readers.whatsup:WHATSUP_B",
        "coco_spatial_one": "caramel.benchmarks.readers.whatsup:COCO_SPATIAL_ONE",
        "coco_spatial_two": "caramel.benchmarks.readers.whatsup:COCO_SPATIAL_TWO",
        "gqa_spatial_one": "caramel.benchmarks.readers.whatsup:GQA_SPATIAL_ONE",
        "gqa_spatial_two": "caramel.benchmarks.readers.whatsup:GQA_SPATIAL_TWO",
        "mmvp": "caramel.benchmarks.readers.mmvp:BENCHMARK",
    },
    "model": {
        "open_clip": "caramel.models.clip.open_clip_models:load_open_clip",
        "dual": "caramel.models.families.transformers_dual:load_dual",
        "itm": "caramel.models.families.matching_heads:load_itm",
        "text": "caramel.models.families.text_encoders:load_text",
        "vqascore": "caramel.models.families.generative:load_vqascore",
        "vgptscore": "caramel.models.families.generative:load_vgptscore",
        "vgptscore_blind": "caramel.models.families.generative:load_vgptscore_blind",
        "vgptscore_noise": "caramel.models.families.generative:load_vgptscore_noise",
        "blind": "caramel.blind.as_model:load_blind",
        "chat": "caramel.models.families.chat:load_chat",
    },
    "model_check": {
        "open_clip": "caramel.models.clip.open_clip_models:missing_open_clip",
        "dual": "caramel.models.families.transformers_dual:missing_dual",
        "itm": "caramel.models.families.matching_heads:missing_itm",
        "text": "caramel.models.families.text_encoders:missing_text",
        "vqascore": "caramel.models.families.generative:missing_generative",
        "vgptscore": "caramel.models.families.generative:missing_generative",
        "vgptscore_blind": "caramel.models.families.generative:missing_generative",
        "vgptscore_noise": "caramel.models.families.generative:missing_generative",
        "blind": "caramel.blind.as_model:missing_blind",
        "chat": "caramel.models.families.chat:missing_chat",
    },
    # What keeps a spec of the params from being loaded, said without loading it.
    "check": {
        "scorer": "caramel.blind.as_model:missing_blind",
        "model": "caramel.models.families.specs:missing_of",
    },
    "base": {
        "open_clip": "caramel.training.pretrain:pretrain_base",
        "pretrained": "caramel.models.clip.open_clip_models:adopt_pretrained",
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


def default_scorers() -> tuple[str, ...]:
    """Return the blind scorers that an audit is made with unless others are named: all that need no model."""
    return (*BACKENDS["scorer"], *BACKENDS["pair_scorer"])
