"""Look up backends by type and name. Each is imported only when it is used.

Each type of backend is one table, whose type says what its entries are: ``JUDGES["clip"]`` is a
``JudgeFactory``. Code that mentions a table depends on all backends in it (``runtime.code_deps``).

Other packages add benchmarks, model families, scorers, methods and judges by entry points (``plugins``).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from caramel.errors import BackendError
from caramel.plugins import Contract, Plugin, find_plugins, import_object

if TYPE_CHECKING:  # listing names needs no types, and so none of their imports
    from caramel.interfaces.benchmark import Benchmark
    from caramel.interfaces.judge import JudgeFactory
    from caramel.interfaces.language_model import LanguageModelSpec
    from caramel.interfaces.method import Method
    from caramel.interfaces.model import Family
    from caramel.interfaces.parser import Parser
    from caramel.interfaces.scene_graph import GraphParserSpec, ThesaurusFactory
    from caramel.interfaces.scorer import ScorerSpec
    from caramel.interfaces.source import SourceReader
    from caramel.interfaces.text_judge import TextJudgeSpec
    from caramel.interfaces.trainer import Trainer
    from caramel.interfaces.training_settings import BaseConfig, GeneratorConfig
    from caramel.interfaces.writer import Writer

Entry_co = TypeVar("Entry_co", covariant=True)


@dataclass(frozen=True)
class Registry(Generic[Entry_co]):
    """The backends of one type: a container of names. Indexing by a name imports that backend.

    Attributes:
        name: the type, for messages.
        targets: name -> "module:object" of caramel's own. Only this table knows the location of a backend.
        check: "module:function" that returns the reasons why the backend of a spec, ``NAME:TARGET``, cannot
            be loaded, without loading it; "" for a type that is named without a target.
        group: group of the entry points of other packages; "" for a type that they cannot add to.
        contract: what those of other packages must be.
    """

    name: str
    targets: Mapping[str, str]
    check: str = ""
    group: str = ""
    contract: Contract = field(default_factory=Contract)

    def __iter__(self) -> Iterator[str]:
        """Yield the names in order, first caramel's own. Nothing is imported."""
        yield from self.targets
        yield from self.plugins

    def __contains__(self, name: object) -> bool:
        """Return whether a backend of that name exists. Nothing is imported."""
        return name in self.targets or name in self.plugins

    def __getitem__(self, name: str) -> Entry_co:
        """Return the backend of that name; errors as in ``get_target`` and ``Plugin.load``."""
        target = self.get_target(name)
        plugin = self.plugins.get(name)
        return cast("Entry_co", plugin.load(self.contract) if plugin else import_object(target))

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        """The backends of other packages, by names that caramel does not have. Nothing is imported."""
        claims = self._claims
        return {name: claims[name][0] for name in claims if name not in self.targets}

    @property
    def _claims(self) -> Mapping[str, tuple[Plugin, ...]]:
        return find_plugins(self.group, self.name) if self.group else {}

    def select_plugins(self, names: Iterable[str]) -> list[Plugin]:
        """Return the plugins among the backends of these names."""
        return [self.plugins[name] for name in names if name in self.plugins]

    def list_missing(self, spec: str) -> list[str]:
        """Return why the backend of a spec cannot be loaded, without loading it; see ``check``."""
        check = cast("Callable[[str], list[str]]", import_object(self.check))
        return check(spec)

    def get_target(self, name: str) -> str:
        """Return the location of a backend as ``module:object``. Nothing is imported.

        Raises:
            BackendError: no backend has that name (the message lists the choices), or several packages claim it.
        """
        claims = self._claims.get(name, ())
        owners = ["caramel"] * (name in self.targets) + list(map(str, claims))
        if not owners:
            near = difflib.get_close_matches(name, self, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise BackendError(f"Unknown {self.name} backend {name!r}.{hint} Choices: {', '.join(self)}.")
        if len(owners) > 1:
            raise BackendError(
                f"Several packages provide the {self.name} {name!r}: {' and '.join(owners)}. It is unknown which one is "
                f"meant. Remove one of them, such as by `pip uninstall {claims[-1].package}`."
            )
        return claims[0].target if claims else self.targets[name]


SOURCES: Registry[SourceReader] = Registry(
    "source",
    {
        "world": "caramel.sources.world.sampling:sample_pairs",
        "files": "caramel.sources.folders:read_pairs",
        "captions": "caramel.sources.caption_files:read_captions_alone",
        "sugarcrepe": "caramel.sources.sugarcrepe_images:read_benchmark_pairs",
    },
)

WRITERS: Registry[Writer] = Registry(
    "negatives",
    {
        "world": "caramel.sources.captions.scene_writer:world_negatives",
        "lexicon": "caramel.sources.captions.lexicon:lexicon_negatives",
        "given": "caramel.sources.captions.precomputed:given_negatives",
        "language_model": "caramel.sources.captions.llm.writer:language_negatives",
        "people": "caramel.sources.captions.corrected:read_corrected_paraphrases",
    },
)

SCORERS: Registry[ScorerSpec] = Registry(
    "scorer",
    {
        "length": "caramel.blind.text.surface:LENGTH",
        "words": "caramel.blind.text.surface:WORDS",
        "tokens": "caramel.blind.text.surface:TOKENS",
        "final_punctuation": "caramel.blind.text.surface:FINAL_PUNCTUATION",
        "casing": "caramel.blind.text.surface:CASING",
        "digits": "caramel.blind.text.surface:DIGITS",
        "articles": "caramel.blind.text.surface:ARTICLES",
        "rare_words": "caramel.blind.text.surface:RARE_WORDS",
        "ngram": "caramel.blind.text.ngram:NGRAM",
        "kneser_ney": "caramel.blind.text.kneser_ney:KNESER_NEY",
        "char_ngram": "caramel.blind.text.char_ngram:CHAR_NGRAM",
        "probe": "caramel.blind.text.linear_probe:PROBE",
        "shrunk_probe": "caramel.blind.text.linear_probe:SHRUNK_PROBE",
        "char_probe": "caramel.blind.text.linear_probe:CHAR_PROBE",
        "edit_probe": "caramel.blind.text.linear_probe:EDIT_PROBE",
        "vera": "caramel.blind.text.language_models:VERA",
        "cola": "caramel.blind.text.language_models:COLA",
        "causal_lm": "caramel.blind.text.language_models:CAUSAL_LM",
        "masked_lm": "caramel.blind.text.language_models:MASKED_LM",
        "embedding_probe": "caramel.blind.text.embedding_probe:EMBEDDING_PROBE",
        "finetuned": "caramel.blind.text.finetuned:FINETUNED",
        "finetuned_causal_lm": "caramel.blind.text.finetuned:FINETUNED_CAUSAL_LM",
    },
    check="caramel.blind.scorer_specs:missing_scorer",
    group="caramel.scorers",
    contract=Contract("caramel.interfaces.scorer:ScorerSpec", ("load",)),
)

GENERATORS: Registry[Trainer[GeneratorConfig]] = Registry(
    "generator",
    {
        "pixart": "caramel.training.recipes.text_to_image:train_pixart",
        "pretrained": "caramel.sources.images.diffusion:adopt_pipeline",
    },
)

LANGUAGE_MODELS: Registry[LanguageModelSpec] = Registry(
    "language model",
    {
        "chat": "caramel.models.llm.chat:CHAT_WRITER",
        "local": "caramel.models.llm.local:LOCAL_WRITER",
    },
    check="caramel.models.llm.specs:missing_language_model",
)

TEXT_JUDGES: Registry[TextJudgeSpec] = Registry(
    "judge of texts",
    {
        "entailment": "caramel.models.llm.text_judges:ENTAILMENT",
        "grammar": "caramel.models.llm.text_judges:GRAMMAR",
    },
)

PARSERS: Registry[Callable[[str], Parser]] = Registry(
    "parser",
    {
        "world": "caramel.audit.similarity.world_trees:world_parser",
        "given": "caramel.audit.similarity.parses:given_parser",
        "dependency": "caramel.audit.similarity.dependency_trees:load_dependency_parser",
    },
)

GRAPH_PARSERS: Registry[GraphParserSpec] = Registry(
    "graph parser",
    {
        "phrases": "caramel.crepe.parsers.phrase_parser:PHRASES",
        "spacy": "caramel.crepe.parsers.dependency_parser:SPACY",
        "seq2seq": "caramel.crepe.parsers.sequence_parser:SEQ2SEQ",
    },
)

THESAURI: Registry[ThesaurusFactory] = Registry(
    "thesaurus",
    {
        "wordnet": "caramel.crepe.wordnet_thesaurus:load_wordnet_thesaurus",
        "lists": "caramel.crepe.wordlist_thesaurus:list_words",
    },
)

JUDGES: Registry[JudgeFactory] = Registry(
    "judge",
    {
        "world": "caramel.sources.images.judges:reading_judge",
        "clip": "caramel.sources.images.judges:clip_judge",
        "people": "caramel.sources.images.people_judge:load_people_judge",
        "none": "caramel.sources.images.judges:build_no_judge",
        "itm": "caramel.sources.images.matching_judges:load_itm_judge",
        "vqascore": "caramel.sources.images.matching_judges:load_vqascore_judge",
        "questions": "caramel.sources.images.matching_judges:load_questions_judge",
    },
    check="caramel.sources.images.judge_specs:list_judge_problems",
    group="caramel.judges",
    contract=Contract(protocols={"": "caramel.interfaces.judge:Judge"}),
)

BENCHMARKS: Registry[Benchmark] = Registry(
    "benchmark",
    {
        "instances": "caramel.benchmarks.readers.instances:BENCHMARK",
        "instances_source": "caramel.benchmarks.readers.instances:SOURCE_FORM",
        "held_out_retrieval": "caramel.benchmarks.readers.held_out:RETRIEVAL",
        "world_classes": "caramel.benchmarks.readers.held_out:CLASSES",
        "sugarcrepe": "caramel.benchmarks.readers.sugarcrepe:BENCHMARK",
        "sugarcrepe_pp": "caramel.benchmarks.readers.sugarcrepe_pp:BENCHMARK",
        "bivlc": "caramel.benchmarks.readers.bivlc:BENCHMARK",
        "winoground": "caramel.benchmarks.readers.winoground:BENCHMARK",
        "colorswap": "caramel.benchmarks.readers.colorswap:BENCHMARK",
        "eqben": "caramel.benchmarks.readers.eqben:BENCHMARK",
        "cola": "caramel.benchmarks.readers.cola:BENCHMARK",
        "vismin": "caramel.benchmarks.readers.vismin:BENCHMARK",
        "natural_bench": "caramel.benchmarks.readers.natural_bench:BENCHMARK",
        "natural_bench_questions": "caramel.benchmarks.readers.natural_bench_questions:BENCHMARK",
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
        "spec": "caramel.benchmarks.readers.spec:BENCHMARK",
        "conme": "caramel.benchmarks.readers.conme:BENCHMARK",
        "negbench_mcq": "caramel.benchmarks.readers.negbench:NEGBENCH_MCQ",
        "negbench_retrieval": "caramel.benchmarks.readers.negbench:NEGBENCH_RETRIEVAL",
    },
    group="caramel.benchmarks",
    contract=Contract("caramel.interfaces.benchmark:Benchmark", ("reader",)),
)

BLIND = "blind"  # the family whose targets are scorers
FAMILIES: Registry[Family] = Registry(
    "model",
    {
        "open_clip": "caramel.models.open_clip.loader:OPEN_CLIP",
        "dual": "caramel.models.transformers.dual:DUAL",
        "itm": "caramel.models.transformers.matching:ITM",
        "itc": "caramel.models.transformers.contrastive:ITC",
        "itc_max": "caramel.models.transformers.contrastive:ITC_MAX",
        "joint_states": "caramel.models.transformers.joint_states:JOINT",
        "text": "caramel.models.transformers.text_encoders:TEXT_ENCODER",
        "vqascore": "caramel.models.transformers.generative:VQASCORE",
        "vgptscore": "caramel.models.transformers.generative:VGPTSCORE",
        "vgptscore_blind": "caramel.models.transformers.generative:VGPTSCORE_BLIND",
        "vgptscore_noise": "caramel.models.transformers.generative:VGPTSCORE_NOISE",
        "yes_no": "caramel.models.transformers.blip_answers:YES_NO",
        "choice": "caramel.models.transformers.local_chooser:CHOICE",
        BLIND: "caramel.blind.text.model_adapter:BLIND",
        "chat": "caramel.models.chat.model:CHAT",
    },
    check="caramel.models.specs:missing_of",
    group="caramel.model_families",
    contract=Contract(
        "caramel.interfaces.model:Family",
        ("load", "missing"),
        {
            "dual": "caramel.interfaces.model:DualEncoder",
            "text": "caramel.interfaces.model:TextEncoder",
            "matcher": "caramel.interfaces.model:Matcher",
            "joint": "caramel.interfaces.model:JointEncoder",
            "chooser": "caramel.interfaces.model:Chooser",
            "blind": "caramel.interfaces.model:BlindModel",
        },
    ),
)

BASES: Registry[Trainer[BaseConfig]] = Registry(
    "base",
    {
        "open_clip": "caramel.training.recipes.pretrain:pretrain_base",
        "pretrained": "caramel.models.open_clip.loader:adopt_pretrained",
    },
)

METHODS: Registry[Method] = Registry(
    "method",
    {
        "infonce": "caramel.training.methods.infonce:METHOD",
        "siglip": "caramel.training.methods.siglip:METHOD",
        "negclip": "caramel.training.methods.negclip:METHOD",
        "trohn_text": "caramel.training.methods.trohn_text:METHOD",
        "trohn_img": "caramel.training.methods.trohn_img:METHOD",
        "negative_images": "caramel.training.methods.negative_images:METHOD",
        "shuffled": "caramel.training.methods.shuffled:METHOD",
        "pairs_unpaired": "caramel.training.methods.pairs_unpaired:METHOD",
        "ce_clip": "caramel.training.methods.ce_clip:METHOD",
        "triplet_clip": "caramel.training.methods.triplet_clip:METHOD",
        "fsc_clip": "caramel.training.methods.fsc_clip:METHOD",
        "degla": "caramel.training.methods.degla:METHOD",
        "clic": "caramel.training.methods.clic:METHOD",
        "clic_joined": "caramel.training.methods.clic_concat_loss:METHOD",
        "read": "caramel.training.methods.read_clip:METHOD",
        "two_captions": "caramel.training.methods.two_captions:METHOD",
        "sentence_transformers": "caramel.training.methods.sentence_transformers:METHOD",
        "c2lip": "caramel.training.methods.c2lip:METHOD",
        "cs_clip": "caramel.training.methods.cs_clip:METHOD",
    },
    group="caramel.methods",
    contract=Contract("caramel.interfaces.method:Method", ("loss",)),
)
