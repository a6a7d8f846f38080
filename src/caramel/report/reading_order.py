"""List the sections of the report in reading order: first the results for newcomers, then reference tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from caramel.report.blocks import Block
from caramel.report.rendering import format_markup
from caramel.report.sections import (
    attacker_sections,
    bounds_sections,
    claim_sections,
    data_sections,
    detector_sections,
    image_sections,
    model_sections,
    noise_section,
    opening_sections,
    retained_sections,
    search_sections,
)
from caramel.report.sections.people_section import build_people_blocks, has_people
from caramel.report.sections.statistics_section import STATISTICS_LEAD, build_statistics_blocks
from caramel.study.preregistration import Registration

Make = Callable[[], Sequence[Block]]


def list_sections(
    data: Path,
    examples: int,
    exempt: Sequence[str],
    primary_comparison: Mapping[str, str],
    registration: Registration,
    statistics: pd.DataFrame,
    changed: Sequence[Block],
    annotations: Path | None,
    versions: Mapping[str, str],
) -> list[tuple[str, str, str, Make]]:
    """Return (id, title, lead, function that builds the blocks) of every section, in reading order.

    Args:
        data, examples, exempt, primary_comparison, registration, versions: as in ``page.build_report``.
        statistics: of the texts.
        changed: blocks on the changes since the last report.
        annotations: folder of the human baseline; without it and people's decisions, the section on people is left out.
    """
    d, i, m = data_sections, image_sections, model_sections
    return [
        (
            "benchmark",
            "The benchmark",
            "An instance of each subtype: two images and two captions. A model has to match them.",
            partial(opening_sections.build_benchmark_section, data),
        ),
        (
            "example",
            "One example",
            "What fine-tuning gets right and the base does not.",
            partial(opening_sections.build_example_section, data, primary_comparison),
        ),
        (
            "claim",
            "The claim",
            "The comparison in report.primary_comparison; all others are exploratory.",
            partial(claim_sections.build_claim_section, data, primary_comparison, registration),
        ),
        (
            "bounds",
            "Room to differ",
            "Where the base stands between a floor and a ceiling, by subtype.",
            partial(bounds_sections.build_bounds_section, data),
        ),
        (
            "probes",
            "Positions",
            "Do the vectors encode where objects are?",
            partial(bounds_sections.build_probes_section, data),
        ),
        ("models", "Models", "The base and its fine-tuned variants.", partial(m.build_models_section, data)),
        (
            "differences",
            "Differences",
            "Effect of the training data, on the same instances.",
            partial(claim_sections.build_differences_section, data, primary_comparison),
        ),
        (
            "retained",
            "Gain and loss",
            "What fine-tuning gained and lost against the base.",
            partial(retained_sections.build_retained_section, data),
        ),
        ("subtypes", "By subtype", "Where models differ.", partial(m.build_subtypes_section, data)),
        *(
            [("people", "People", "What people judged.", partial(build_people_blocks, data, annotations))]
            if has_people(data, annotations)
            else []
        ),
        ("changes", "What changed", "Key figures against the last report.", lambda: changed),
        ("counts", "Data", "Output rows of each stage.", partial(d.build_counts_section, data)),
        (
            "statistics",
            "Statistics",
            STATISTICS_LEAD,
            partial(build_statistics_blocks, statistics),
        ),
        ("rejects", "Rejects", "What was dropped, and why.", partial(d.build_rejects_section, data)),
        (
            "language-model",
            "Language model",
            "Error rates of the model that wrote the captions, and which check noticed.",
            partial(noise_section.build_noise_section, data),
        ),
        (
            "validator",
            "Validator",
            "What the validator of the language model's texts is worth, by texts with known answers.",
            partial(noise_section.build_validator_section, data),
        ),
        (
            "failures",
            "Failures",
            "Why the language model's drafts failed, and texts that never passed.",
            partial(noise_section.build_failure_section, data),
        ),
        (
            "blind",
            "Text bias",
            "Can an attacker find the hard negatives without the image?",
            partial(d.build_blind_section, data, exempt),
        ),
        (
            "gate-captions",
            "Gate on captions",
            "Rules that every caption must pass before training.",
            partial(d.build_gates_section, data, "validate_captions"),
        ),
        (
            "scenes",
            "Pairs",
            "Images and captions of the source, test split.",
            partial(i.build_scenes_sheet, data, examples),
        ),
        (
            "settings",
            "Generator settings",
            "Settings tried before generation.",
            partial(i.build_settings_section, data),
        ),
        (
            "yield",
            "Yield and judges",
            "From candidates to negatives.",
            partial(i.build_yield_section, data),
        ),
        (
            "candidates",
            "Candidates",
            "Images generated for negative captions.",
            partial(i.build_candidates_sheet, data, examples),
        ),
        (
            "instances",
            "Instances",
            "The benchmark as a model sees it, test split.",
            partial(i.build_instances_sheet, data, examples),
        ),
        (
            "picture-bias",
            "Image bias",
            "Can an attacker find the negative from the two images of an instance, without a caption?",
            partial(attacker_sections.build_image_attack_section, data),
        ),
        (
            "detectors",
            "Detectors",
            "How much of a score could a detector of synthetic items reach?",
            partial(detector_sections.build_detectors_section, data),
        ),
        (
            "gate-benchmark",
            "Gate on the benchmark",
            "Rules that the benchmark must pass before any model is scored.",
            partial(d.build_gates_section, data, "validate_benchmark"),
        ),
        *(
            (f"curves-{name}", title, "", partial(m.build_curves_section, data / stage / "curves.csv", name))
            for name, stage, title in (
                ("writer", "writer", "Training of the language model"),
                ("generator", "generator", "Training of the generator"),
                ("base", "base", "Training of the base model"),
            )
        ),
        (
            "curves-finetune",
            "Fine-tuning",
            "",
            partial(search_sections.build_finetune_section, data),
        ),
        (
            "versions",
            "Data versions",
            format_markup("DVC's records in <code>dvc.lock</code> for the outputs behind this page."),
            partial(d.build_versions_section, versions),
        ),
    ]
