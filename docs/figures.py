"""Write the figures of README.md and docs/results.md from the tables of a run: `make figures`, after `dvc repro`.

Both pages hold blocks between `<!-- figures: NAME -->` and `<!-- end -->`. Nothing in a block is written by
hand, and no figure of a run is outside of a block. docs/figures.json stores the content of the blocks with
the commit, the machine, and DVC's hashes of the outputs behind them. `tests/test_figures.py` compares it with
the pages and with dvc.lock.

    python docs/figures.py                              # the run in data/; its timings go to docs/timings.json
    python docs/figures.py --audit "SugarCrepe=FOLDER"  # also the text-only accuracy on other sets, a minute or more for each
    python docs/figures.py --study study/study.json     # also the results of `caramel study`, copied to docs/study.json
    python docs/figures.py --pages                      # only the pages, from docs/figures.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from caramel.config.schema import Config, load_config
from caramel.errors import DataError
from caramel.release.pin import read_locked_outputs
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    NoteBlock,
    TableBlock,
    format_interval,
    format_percent,
    format_signed,
)
from caramel.report.sections import (
    attacker_sections,
    claim_parts,
    claim_sections,
    detector_sections,
    image_sections,
    model_sections,
    retained_sections,
)
from caramel.report.sections.model_rows import SOURCE_FORM, build_row_index, read_variants
from caramel.report.study_page import build_study_sections
from caramel.runtime.code_manifest import load_stages
from caramel.runtime.mlflow.tracking import get_git_commit
from caramel.runtime.progress import SHIPPED
from caramel.runtime.timings import find_last_run, get_last_seconds
from caramel.study.preregistration import Registration, RunFacts, check_registration
from caramel.utils.stats import format_p

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/results.md")
TIMINGS = ROOT / SHIPPED
KEPT = ROOT / "docs" / "figures.json"
STUDY = ROOT / "docs" / "study.json"  # last result of `caramel study` for plans/claim.yaml
READ = (
    "data/assemble",
    "data/evaluate",
    "data/filter_images",
    "data/image_scores",
    "data/refine",
    "data/scores",
)
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
TYPES = ("all", "replace", "swap", "only", "add")


def format_cell(cell: Cell) -> str:
    """Return a cell of the report as text followed by its smaller line; a marked cell is bold."""
    text = f"**{cell.text}**" if cell.text and cell.mark not in ("", "muted") else cell.text
    return " ".join(filter(None, (text, cell.note)))


def format_table(table: TableBlock) -> str:
    """Return a table of the report as Markdown, without its caption; coloured cells are bold."""
    rows = [[format_cell(cell) for cell in row] for row in table.rows]
    lines = [list(table.head), ["---"] * len(table.head), *rows]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{text}\n\n{table.note.replace('Coloured', 'Bold')}" if table.note else text


def format_blocks(blocks: Sequence[Block]) -> str:
    """Return the texts and tables of a section as Markdown, without its images."""
    parts = []
    for block in blocks:
        if isinstance(block, NoteBlock):
            parts.append(block.text)
        elif isinstance(block, TableBlock) and not block.folded:
            parts.append(
                f"**{block.caption}**\n\n{format_table(block)}" if block.caption else format_table(block)
            )
    return "\n\n".join(parts)


def headline(data: Path, config: Config) -> str:
    """Return the four metrics of base and variants on all types except *add*, with their spread over seeds."""
    rows = build_row_index(read_variants(data), "variant", "subset", "metric")
    lines = []
    for name in dict.fromkeys(key[0] for key in rows):
        cells = []
        for metric in claim_parts.METRIC_TITLES:
            row = rows[name, "without_add", metric]
            spread = "" if row["seeds"] < 2 else f" ± {format_percent(row['sd'])}"
            cells.append(f"{format_percent(row['mean'])}{spread}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    head = f"| model | {' | '.join(claim_parts.METRIC_TITLES.values())} |\n|{'---|' * 5}"
    return "\n".join([head, *lines])


def format_contrast(data: Path, config: Config, registration: Registration) -> str:
    """Return the run's primary comparison in a few lines: size, status, largest parts, and the other form."""
    contrast = config.report.primary_comparison.model_dump()
    found = claim_sections.compute_claim(data, contrast)
    parts = claim_parts.compute_parts(data, contrast).sort_values("part", ascending=False)
    largest = parts.iloc[0]
    rest = ", ".join(f"{row.subtype} {format_signed(row.part)}" for row in parts.iloc[1:].itertuples())
    bounds = format_interval(found["ci_low"], found["ci_high"], difference=True)
    title = claim_parts.METRIC_TITLES[contrast["metric"]]
    other = claim_parts.select_comparison(data, contrast, contrast["subset"], SOURCE_FORM)
    between = format_interval(other["ci_low"], other["ci_high"], difference=True)
    return "\n".join(
        [
            f"- {contrast['variant']} against {contrast['against']}: {title} {format_signed(found['difference'])} points {bounds}, "
            f"p {format_p(found['p'], '.2g', least=found['p_least'], equals='= ')} ({claim_sections.format_verdict(found).lower()}).",
            f"- By subtype, as parts of that difference: {largest['subtype']} {format_signed(largest['part'])} "
            f"{format_interval(largest['part_low'], largest['part_high'], difference=True)}; {rest}. The runs differ on "
            f"{int(parts['differ'].sum()):,} of {int(parts['n'].sum()):,} instances; the others are correct in every run or in none.",
            f"- With the positive images of the source instead of drawn ones: {format_signed(other['difference'])} points {between}, "
            f"p {format_p(other['p'], '.2g', least=other['p_least'], equals='= ')}.",
            f"- {registration.reason}",
        ]
    )


def format_claim(found: Mapping[str, Any]) -> str:
    """Return a study's primary comparison in a few lines."""
    one = found["contrast"]
    parts = sorted(found["parts"], key=lambda part: -part["part"])
    named = [
        f"{part['subtype']} {format_signed(part['part'])} {format_interval(part['part_low'], part['part_high'], difference=True)}"
        for part in parts
    ]
    compounds = [
        f"{row['subset']} {format_signed(row['mean'])}"
        for row in found["exploratory"]
        if row["subset"] in found["compounds"]
        and all(row[key] == one[key] for key in ("variant", "against", "metric"))
    ]
    others = [row for row in found["exploratory"] if row["shown"]]
    alike = [
        f"{row['variant']} − {row['against']} {format_signed(row['mean'])}"
        for row in others
        if (row["metric"], row["subset"]) == (one["metric"], one["subset"])
    ]
    return "\n".join(
        [
            f"- {one['variant']} against {one['against']}: {claim_parts.METRIC_TITLES[one['metric']]} {format_signed(one['mean'])} points "
            f"{format_interval(one['low'], one['high'], difference=True)}, p = {one['p']:.2g} ({claim_sections.format_verdict(one).lower()}). "
            f"Over {len(found['draws'])} repetitions, each with new scenes, a new image generator and a new base, and {found['seeds']} trainings of each model.",
            f"- By subtype, as parts of that difference: {'; '.join(named)}.",
            f"- By compounds: {', '.join(compounds)}.",
            f"- Of the other {len(found['exploratory'])} comparisons, {len(others)} remain significant after Holm correction; by "
            f"{claim_parts.METRIC_TITLES[one['metric']]} on the claim's subset: {', '.join(alike) or 'none'}.",
            f"- {found['registration']['reason']}",
        ]
    )


def significant(data: Path, config: Config) -> str:
    """Return which exploratory differences of each form are significant after Holm correction, as in the report."""
    sections = claim_sections.build_differences_section(data, config.report.primary_comparison.model_dump())
    lines = []
    for table in (block for block in sections if isinstance(block, TableBlock)):
        marked = [
            f"{row[0].text}, {title}: {cell.text} {cell.note}"
            for row in table.rows
            for title, cell in zip(table.head, row, strict=True)
            if cell.mark in ("up", "down")
        ]
        lines.append(f"- {table.caption}: {'; '.join(marked) or 'none'}.")
    return "\n".join(lines)


def made(config: Config) -> str:
    """Return the commit, profile and machine behind the figures."""
    model = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )  # fmt: skip
    commit = get_git_commit(ROOT)
    changed = " with changed files" if commit.endswith("-dirty") else ""
    return (
        f"Written by `make figures` at commit {commit[:12]}{changed} from a run of profile `{config.profile}` on "
        f"{os.cpu_count()} cores of {model}."
    )


def audit(data: Path) -> dict[str, Any]:
    """Return the best text-only attacker's accuracy and interval in [0, 1] on a set, by type."""
    with tempfile.TemporaryDirectory() as out:
        command = [str(Path(sys.executable).with_name("caramel")), "audit", str(data), "--out", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = json.loads(Path(out, "audit.json").read_text(encoding="utf-8"))["best_blind_attacker"]
    overall = {"accuracy": found["overall"]["micro"]} | {
        end: found["overall"][end] for end in ("ci_low", "ci_high")
    }
    keys = ("accuracy", "ci_low", "ci_high")
    return {"all": overall} | {name: {key: of[key] for key in keys} for name, of in found["by_type"].items()}


def audits_table(audits: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the text-only accuracy on each set, by type, in per cent."""
    lines = [["negatives of", *TYPES], ["---"] * (1 + len(TYPES))]
    for name, found in audits.items():
        cells = [
            f"{format_percent(found[t]['accuracy'])} {format_interval(found[t]['ci_low'], found[t]['ci_high'])}"
            if t in found
            else MISSING
            for t in TYPES
        ]
        lines.append([name, *cells])
    note = "Per cent; chance is 50. Brackets: 95 % intervals. Refinement does not change *add*, where the longer caption is the negative."
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{note}"


def blocks_of_run(config: Config) -> dict[str, str]:
    """Return every block that comes from ``data/``."""
    data, contrast = ROOT / "data", config.report.primary_comparison.model_dump()
    plan = ROOT / config.report.plan if config.report.plan else None
    registration = check_registration(
        plan,
        config.report.primary_comparison,
        RunFacts([config.scenes.seed], find_last_run("evaluate", config.profile)),
    )
    registration = registration._replace(reason=registration.reason.replace(f"{ROOT}/", ""))
    makers: Mapping[str, Callable[[], str]] = {
        "made": lambda: made(config),
        "headline": lambda: headline(data, config),
        "contrast": lambda: format_contrast(data, config, registration),
        "parts": lambda: format_table(claim_parts.build_parts_block(data, contrast)),
        "forms": lambda: format_table(claim_parts.build_forms_block(data, contrast)),
        "significant": lambda: significant(data, config),
        "compounds": lambda: format_blocks(claim_parts.build_compounds_blocks(data)),
        "models": lambda: format_blocks(model_sections.build_models_section(data)[:1]),
        "retained": lambda: format_blocks(retained_sections.build_retained_section(data)),
        "images": lambda: format_blocks(image_sections.build_yield_section(data)),
        "attackers": lambda: format_blocks(attacker_sections.build_image_attack_section(data)),
        "detectors": lambda: format_blocks(detector_sections.build_detectors_section(data)),
    }
    return {name: make() for name, make in makers.items()}


def build_study_blocks(found: Mapping[str, Any]) -> dict[str, str]:
    """Return every block that comes from a study."""
    sections = {section.id: section for section in build_study_sections(found)}
    told = {
        name: format_blocks(sections[name].blocks)
        for name in ("claim", "components", "power", "models", "others")
    }
    return {"claim": format_claim(found), **{f"study_{name}": text for name, text in told.items()}}


def read_study_text(path: Path) -> str:
    """Return the text of a study's file.

    Raises:
        DataError: it cannot be read, is not JSON, or lacks values that the pages show.
    """
    advice = "Name the study.json that `caramel study` wrote."
    try:
        text = path.read_text(encoding="utf-8")
        build_study_blocks(json.loads(text))  # raises if it is not a study, before it replaces the old one
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}. {advice}") from error
    except ValueError as error:
        raise DataError(f"{str(path)!r} is not JSON: {error}. {advice}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{str(path)!r} is not a study: {error!r} is missing or wrong. {advice}") from error
    return text


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Return a page with its blocks filled.

    Raises:
        KeyError: no function makes one of its blocks.
    """
    return BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]}\n{match[3]}", text)


def write_pages(blocks: Mapping[str, str]) -> None:
    """Write the blocks into the pages."""
    for name in PAGES:
        path = ROOT / name
        path.write_text(fill(path.read_text(encoding="utf-8"), blocks), encoding="utf-8")


def write_timings(config: Config) -> None:
    """Write each stage's time in its last run here; a new clone uses these times for its progress."""
    seconds = get_last_seconds(config.profile)
    content = {"profile": config.profile, "made": made(config), "seconds": seconds}
    if set(seconds) >= set(load_stages(ROOT)):
        TIMINGS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Read the tables, and write docs/figures.json and the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audit", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--study", metavar="study.json")
    parser.add_argument("--pages", action="store_true")
    asked = parser.parse_args()
    study_path = Path(asked.study).absolute() if asked.study else None
    os.chdir(ROOT)
    old = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"audits": {}}
    if study_path:
        try:
            STUDY.write_text(read_study_text(study_path), encoding="utf-8")
        except DataError as error:
            parser.error(str(error))
    if not asked.pages:
        config = load_config()
        locked = read_locked_outputs(ROOT)
        named = [("this run, refined", "data/assemble"), *(each.split("=", 1) for each in asked.audit)]
        audits = old["audits"] | {name: audit(Path(folder)) for name, folder in named}
        old = {
            "profile": config.profile,
            "outs": {path: digest for path, digest in locked.items() if path.startswith(READ)},
            "audits": audits,
            "blocks": blocks_of_run(config) | {"text": audits_table(audits)},
        }
        KEPT.write_text(json.dumps(old, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write_timings(config)
    study = json.loads(STUDY.read_text(encoding="utf-8"))
    write_pages(old["blocks"] | build_study_blocks(study))


if __name__ == "__main__":
    main()
