"""Command ``estimate-cost``: estimate the cost of captions by a language model, without sending a request."""

from __future__ import annotations

import click

from caramel.cli.caption_run import load_caption_run
from caramel.cli.output import echo


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
    from caramel.sources.captions.cost_estimate import estimate_cost

    pairs, settings = run = load_caption_run()
    estimate = estimate_cost(pairs, **settings, sample=sample)
    echo(f"texts       {estimate.texts:>15,}  {' and '.join(run.parts)} of {len(pairs):,} captions")
    echo(f"known       {estimate.known:>15,}  requests with cached replies")
    echo(f"requests    {estimate.requests:>15,}  at least, if every first reply passes")
    echo(f"tokens in   {estimate.input_tokens:>15,}  at about four bytes of text each")
    echo(f"tokens out  {estimate.output_tokens:>15,}")
    echo(f"cost        {estimate.cost:>15,.2f}  by price_per_mtok_in and price_per_mtok_out")
    echo(
        f"Estimated from {estimate.num_sampled:,} texts. A caption that fails a check is requested again, up to {settings['max_attempts']} times "
        f"(negatives.max_attempts)."
    )
