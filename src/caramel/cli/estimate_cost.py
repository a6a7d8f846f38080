"""Command ``estimate-cost``: estimate the cost of captions by a language model, without sending a request."""

from __future__ import annotations

import click

from caramel.cli.output import echo
from caramel.errors import ConfigError


@click.command("estimate-cost")
@click.option(
    "--sample",
    default=200,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="Number of captions that the estimate is computed from.",
)
def estimate_caption_cost(sample: int) -> None:
    """Estimate what captions by a language model will cost.

    Prints requests, tokens and cost of stage `negatives` of params.yaml, and sends no request. First replies to a text
    that are cached in work/replies count as known. A local model (local:FOLDER) is loaded, because its files are part
    of the cache key. Stage `scenes` must have run.

    \b
    Example:
      caramel estimate-cost
      caramel estimate-cost --sample 1000
    """
    from caramel.config.schema import load_config
    from caramel.config.validate import check_language_model
    from caramel.interfaces.writer import Part
    from caramel.schemas.io import read_table
    from caramel.schemas.pairs import PAIRS
    from caramel.sources.captions.cost_estimate import estimate_cost

    config = load_config()
    check_language_model(config)
    section = config.negatives
    backends: dict[Part, str] = {
        "negatives": section.backend,
        "paraphrases": section.paraphrases or section.backend,
    }
    parts = [part for part, backend in backends.items() if backend == "language_model"]
    if not parts:
        raise ConfigError(
            f"Profile {config.profile!r} uses no language model: set negatives.backend or negatives.paraphrases to "
            f"'language_model'."
        )
    pairs = read_table(PAIRS, "data/scenes/pairs.parquet")
    settings = section.language_model.model_dump()
    estimate = estimate_cost(
        pairs,
        seed=section.seed,
        max_attempts=section.max_attempts,
        parts=parts,
        model=settings,
        sample=sample,
        spacy_model=section.spacy_model,
    )
    echo(f"texts       {estimate.texts:>15,}  {' and '.join(parts)} of {len(pairs):,} captions")
    echo(f"known       {estimate.known:>15,}  requests with cached replies")
    echo(f"requests    {estimate.requests:>15,}  at least, if every first reply passes")
    echo(f"tokens in   {estimate.input_tokens:>15,}  at about four bytes of text each")
    echo(f"tokens out  {estimate.output_tokens:>15,}")
    echo(f"cost        {estimate.cost:>15,.2f}  by price_per_mtok_in and price_per_mtok_out")
    echo(
        f"Estimated from {estimate.num_sampled:,} texts. A caption that fails a check is requested again, up to {section.max_attempts} times "
        f"(negatives.max_attempts)."
    )
