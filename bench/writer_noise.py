"""Measure the error rates of the embedded language model, the checks, and how exploitable its negatives are.

    python bench/writer_noise.py work/writer_noise --seeds 3 --pairs 300

For each seed, a model is trained with the settings of stage ``train_writer`` in params/default.yaml. It
writes the negatives and paraphrases of the same pairs of the world with the settings of profile ``language``.
Each draft is judged exactly (``sources.captions.error_rates``). Then `caramel audit`'s attackers run on the
negatives of pairs and subtypes that both the rules and the model have: on all of them, and on the model's
right ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click
import pandas as pd

from caramel.api import audit_captions
from caramel.config.profiles import read_profile
from caramel.config.schema import Config
from caramel.interfaces.writer import WrittenCaption
from caramel.runtime.environment import be_quiet
from caramel.sources.captions.error_rates import ERRORS, compute_error_rates, evaluate_checks, label_drafts
from caramel.sources.captions.llm.writer import language_negatives
from caramel.sources.captions.scene_writer import world_negatives
from caramel.sources.world.sampling import sample_pairs
from caramel.training.recipes.caption_lm import FIXED, CaptionModelConfig, train_writer
from caramel.utils.typed_settings import build_settings

ROOT = Path(__file__).parents[1]
PARTS: tuple[Literal["negatives", "paraphrases"], ...] = ("negatives", "paraphrases")
SCORERS = ("length", "words", "ngram", "probe", "shrunk_probe", "edit_probe")


def sample_world_pairs(config: Config, number: int) -> pd.DataFrame:
    """Return a number of pairs of the world without drawing them."""
    how = config.scenes
    return sample_pairs(
        counts={"test": number},
        num_objects=how.num_objects,
        allow_unmentioned_objects=False,
        unseen_frac=how.unseen_frac,
        typical_color_prob=how.typical_color_prob,
        absolute_positions=how.absolute_positions,
        group_size=how.group_size,
        seed=how.seed,
        put=lambda *_, **__: None,
    ).pairs


def train_model(config: Config, seed: int, folder: Path) -> Path:
    """Train the model of a seed; return its folder."""
    begun, settings = time.monotonic(), config.train_writer.model_dump() | {"seed": seed}
    settings |= {**FIXED, "device": "cpu", "precision": "fp32"}
    curve = train_writer(
        build_settings(CaptionModelConfig, settings), scratch=folder / "scratch", out=folder / "model"
    )
    print(f"seed {seed}: trained in {time.monotonic() - begun:.0f} s, {curve[-2:]}", flush=True)
    return folder / "model"


def generate_negatives(config: Config, pairs: pd.DataFrame, model: Path, store: Path) -> WrittenCaption:
    """Return the texts that the model of a folder writes for the pairs, with responses as one part."""
    section = config.negatives
    settings = {**section.language_model.model_dump(), "target": f"local:{model}"}
    begun = time.monotonic()
    written = language_negatives(
        pairs, seed=section.seed, max_attempts=section.max_attempts, parts=PARTS, model=settings, store=store
    )
    assert written.replies is not None
    replies = pd.concat(list(written.replies))
    print(f"{len(replies):,} requests in {time.monotonic() - begun:.0f} s", flush=True)
    return written._replace(replies=iter([replies]))


def judge_drafts(
    pairs: pd.DataFrame, written: WrittenCaption
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the judged drafts, the noise table and the table of checks."""
    assert written.replies is not None
    assert written.verdicts is not None
    prompts = pd.concat(list(written.replies))["prompt"]
    rows = label_drafts(pairs, written.verdicts, allow_unmentioned_objects=False)
    kept_ids = [*written.negatives["negative_id"], *(written.paraphrases["pair_id"] + ":paraphrase")]
    return (
        rows,
        compute_error_rates(rows, kept_ids, written.rejects["id"].tolist(), prompts),
        evaluate_checks(rows),
    )


def attack_negatives(pairs: pd.DataFrame, negatives: pd.DataFrame) -> tuple[float, float, float, int]:
    """Return the accuracy of the best blind attacker on some negatives, its 95 % interval, and their number."""
    named = {"negative_id": "id", "pair_id": "image_id"}
    frame = negatives[[*named, "type", "subtype", "negative_caption"]].rename(columns=named)
    captions = pairs.set_index("pair_id")["caption"]
    best = audit_captions(frame.assign(caption=captions[frame["image_id"]].to_numpy()), scorers=SCORERS).best
    return best["micro"], best["ci_low"], best["ci_high"], len(frame)


def compare_hackability(
    pairs: pd.DataFrame, rules: pd.DataFrame, written: WrittenCaption, rows: pd.DataFrame
) -> pd.DataFrame:
    """Return the attackers' accuracy on negatives of rules and model where both wrote one: on all, and on right ones."""
    right = set(rows.loc[rows["right"], "id"])
    records = []
    for among, ids in (("all", set(written.negatives["negative_id"])), ("right", right)):
        both = ids & set(rules["negative_id"]) & set(written.negatives["negative_id"])
        for writer, negatives in (("rules", rules), ("model", written.negatives)):
            common_negatives = negatives[negatives["negative_id"].isin(both)]
            records.append((among, writer, *attack_negatives(pairs, common_negatives)))
    return pd.DataFrame(records, columns=["among", "writer", "accuracy", "ci_low", "ci_high", "negatives"])


def summarise_seeds(frames: Sequence[pd.DataFrame], keys: list[str]) -> pd.DataFrame:
    """Return the mean of each value over the seeds, and its standard deviation."""
    return pd.concat(frames).groupby(keys, sort=False).agg(["mean", "std"])


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--pairs", "number", default=300, show_default=True, type=click.IntRange(min=20))
@click.option("--profile", default="language", show_default=True)
def main(out: Path, seeds: int, number: int, profile: str) -> None:
    """Measure and print, reusing earlier trainings and responses; see the module's docstring."""
    be_quiet()
    config = read_profile(profile, {}, ROOT)[1]
    pairs = sample_world_pairs(config, number)
    rules = world_negatives(
        pairs, data_dir="", seed=config.negatives.seed, max_attempts=20, allow_unmentioned_objects=False
    ).negatives
    tables: dict[str, list[pd.DataFrame]] = {"noise": [], "checks": [], "audit": []}
    for seed in range(1, seeds + 1):
        folder = out / f"seed-{seed}"
        model = train_model(config, seed, folder)
        written = generate_negatives(config, pairs, model, folder / "replies.sqlite")
        rows, counts, worth = judge_drafts(pairs, written)
        shares = counts.assign(**{name: counts[name] / counts["drafts"] for name in (*ERRORS, "right")})
        tables["noise"].append(
            shares.assign(
                fit=counts["kept_right"] / counts["kept"],
                per_request=counts["kept_right"] / counts["requests"],
            )
        )
        tables["checks"].append(worth)
        tables["audit"].append(compare_hackability(pairs, rules, written, rows))
        for name, frames in tables.items():
            frames[-1].to_csv(folder / f"{name}.csv", index=False)
    for name, keys in (("noise", ["subtype"]), ("checks", ["part", "check"]), ("audit", ["among", "writer"])):
        table = summarise_seeds(tables[name], keys)
        table.to_csv(out / f"{name}.csv")
        print(f"\n{name}\n{table.round(3).to_string()}", flush=True)


if __name__ == "__main__":
    main()
