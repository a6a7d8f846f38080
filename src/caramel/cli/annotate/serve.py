"""Command ``annotate serve``: serve a task to annotators' browsers."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import click

from caramel.cli.output import echo
from caramel.errors import ConfigError

PORT, ANNOTATOR = 5080, "annotator-1"


@click.command("serve")
@click.argument("task", type=click.Path(path_type=Path))
@click.option(
    "--annotator",
    help=f"Pseudonym of the annotator at this machine, without --accounts.  [default: {ANNOTATOR}]",
)
@click.option(
    "--accounts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of accounts by `caramel annotate accounts`, for several annotators.",
)
@click.option(
    "--share-on",
    metavar="ADDRESS",
    help="Address of this machine to serve on, for annotators at other machines. Needs --accounts.  [default: loopback]",
)
@click.option(
    "--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
@click.option(
    "--public-url",
    metavar="URL",
    help="URL under which browsers reach this server through a tunnel or a proxy, such as https://annotate.example.org.",
)
def serve_annotation_task(
    task: Path,
    annotator: str | None,
    accounts: Path | None,
    share_on: str | None,
    port: int,
    public_url: str | None,
) -> None:
    """Serve a task to annotators' browsers, until Ctrl-C.

    Without options, the page can be opened on this machine only, with the link that is printed. With --share-on, it
    is served unencrypted to other machines: use a trusted network, or an encrypted tunnel. Each answer is on the disk
    before the next item is given out. `caramel annotate TASK.db` does the same.

    \b
    Example:
      caramel annotate serve choose.db
      caramel annotate serve choose.db --accounts accounts.json --share-on 192.168.1.20
      caramel annotate serve choose.db --accounts accounts.json --public-url https://annotate.example.org
    """
    from caramel.annotation.accounts import AccountsFile, check_pseudonym, create_secret, hash_secret
    from caramel.annotation.serving import LOOPBACK, list_origins, open_socket, serve_task
    from caramel.annotation.store import AnswerStore

    if share_on is not None and accounts is None:
        raise ConfigError(
            "--share-on needs --accounts: other machines get in with an account only. `caramel annotate accounts` makes them."
        )
    if annotator is not None and accounts is not None:
        raise ConfigError("--annotator and --accounts exclude each other: accounts name the annotators.")
    address = share_on or LOOPBACK
    secret = "SECRET" if accounts else create_secret()
    name = check_pseudonym(annotator or ANNOTATOR, "--annotator")
    # Asked at each request: a file may have changed since.
    get_accounts = AccountsFile(accounts) if accounts else {name: hash_secret(secret)}.copy
    list_origins(address, port, public_url)  # refuses a wildcard before anything is opened
    with closing(AnswerStore(task)) as store:
        listener = open_socket(address, port)
        origins = list_origins(address, listener.getsockname()[1], public_url)
        who = f"{len(get_accounts())} annotators, each with their own secret" if accounts else name
        # Not `echo`, which hides secrets: this link is what the user needs.
        click.echo(f"Annotation for {who}: {origins[0]}/?token={secret}")
        echo("Ctrl-C ends it. Answers are stored one by one.")
        with suppress(KeyboardInterrupt):
            serve_task(store, get_accounts, listener, origins)
