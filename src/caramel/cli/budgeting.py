"""Command ``budget``: what a language model will be asked for, before it is."""

from __future__ import annotations

import click

from caramel.cli.output import say
from caramel.errors import ConfigError


@click.command()
@click.option(
    "--sample",
    default=200,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="Captions that are looked at.",
)
def budget(sample: int) -> None:
    """Say what stage `negatives` of params.yaml will ask a language model for: requests, tokens and cost.

    Nothing is asked. Replies that are kept in work/replies count as known, as far as the first answers to a text
    go. A model of a folder (local:) is loaded, to know what its replies are kept under. Stage `scenes` must have run.

    \b
    Example:
      caramel budget
      caramel budget --sample 1000
    """
    from caramel.config.schema import load
    from caramel.config.validate import check_language_model
    from caramel.interfaces.writer import Part
    from caramel.schemas.io import read_table
    from caramel.schemas.pairs import PAIRS
    from caramel.sources.captions.cost_estimate import forecast

    config = load()
    check_language_model(config)
    section = config.negatives
    backends: dict[Part, str] = {
        "negatives": section.backend,
        "paraphrases": section.paraphrases or section.backend,
    }
    parts = [part for part, backend in backends.items() if backend == "language_model"]
    if not parts:
        raise ConfigError(
            f"Profile {config.profile!r} asks no language model: set negatives.backend or negatives.paraphrases to "
            f"'language_model'."
        )
    pairs = read_table(PAIRS, "data/scenes/pairs.parquet")
    settings = section.language_model.model_dump()
    found = forecast(
        pairs, seed=section.seed, attempts=section.attempts, parts=parts, model=settings, sample=sample
    )
    say(f"texts       {found.texts:>15,}  {' and '.join(parts)} of {len(pairs):,} captions")
    say(f"known       {found.known:>15,}  requests whose replies are kept")
    say(f"requests    {found.requests:>15,}  at the least: every first answer passes")
    say(f"tokens in   {found.tokens_in:>15,}  about four bytes of text each")
    say(f"tokens out  {found.tokens_out:>15,}")
    say(f"cost        {found.cost:>15,.2f}  by price_in and price_out")
    say(
        f"Reckoned from {found.looked_at:,} texts. What fails is asked for again, up to {section.attempts} times "
        f"(negatives.attempts)."
    )
