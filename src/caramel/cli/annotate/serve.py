"""Command ``annotate serve``: serve a task to annotators' browsers."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import click

from caramel.cli.output import echo
from caramel.errors import ConfigError

PORT = 5080


@click.command("serve")
@click.argument("task", type=click.Path(path_type=Path))
@click.option(
    "--annotator",
    default="annotator-1",
    show_default=True,
    help="Pseudonym of the annotator at this machine.",
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
def serve_annotation_task(
    task: Path, annotator: str, accounts: Path | None, share_on: str | None, port: int
) -> None:
    """Serve a task to annotators' browsers, until Ctrl-C.

    Without options, the page can be opened on this machine only, with the link that is printed. With --share-on, it
    is served unencrypted to other machines: use a trusted network, or an encrypted tunnel. Each answer is on the disk
    before the next item is given out. `caramel annotate TASK.db` does the same.

    \b
    Example:
      caramel annotate serve choose.db
      caramel annotate serve choose.db --accounts accounts.json --share-on 192.168.1.20
    """
    from caramel.annotation.accounts import check_pseudonym, create_secret, hash_secret, read_accounts
    from caramel.annotation.serving import LOOPBACK, list_hosts, open_socket, serve_task
    from caramel.annotation.store import AnswerStore

    if share_on is not None and accounts is None:
        raise ConfigError(
            "--share-on needs --accounts: other machines get in with an account only. `caramel annotate accounts` makes them."
        )
    address = share_on or LOOPBACK
    secret = "SECRET" if accounts else create_secret()
    known = (
        read_accounts(accounts)
        if accounts
        else {check_pseudonym(annotator, "--annotator"): hash_secret(secret)}
    )
    list_hosts(address, port)  # refuses a wildcard before anything is opened
    with closing(AnswerStore(task)) as store:
        listener = open_socket(address, port)
        host = list_hosts(address, listener.getsockname()[1])[0]
        who = f"{len(known)} annotators, each with their own secret" if accounts else annotator
        # Not `echo`, which hides secrets: this link is what the user needs.
        click.echo(f"Annotation for {who}: http://{host}/?token={secret}")
        echo("Ctrl-C ends it. Answers are stored one by one.")
        with suppress(KeyboardInterrupt):
            serve_task(store, known, listener, address)
