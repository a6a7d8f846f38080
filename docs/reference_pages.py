"""mkdocs' hook that writes the pages of ``reference/`` from the code, so that they cannot say what it does not do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from caramel import registry
from caramel.cli.commands import cli
from caramel.schemas.catalogue import TABLES
from caramel.schemas.contracts import Column

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; mkdocs calls this."""
    for name, text in {
        "commands": commands(),
        "params": params((ROOT / "params" / "default.yaml").read_text(encoding="utf-8")),
        "tables": tables_page(),
        "formats": formats(),
    }.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def walked(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    """Yield name and help of a command and of all below it."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            if not found.hidden:
                yield from walked(found, each, context)


def commands() -> str:
    """Return the page of all commands: what ``--help`` says of each."""
    parts = [f"## {path}\n\n```text\n{text}\n```" for path, text in walked(cli, "caramel")]
    return "\n\n".join(["# Commands", "What `--help` says of each.", *parts]) + "\n"


def params(text: str) -> str:
    """Return the page of all knobs: ``params/default.yaml``, a heading for each section."""
    head, *sections = re.split(r"(?m)^(?=\w+:)", text)
    lines = [line.lstrip("# ").rstrip() for line in head.splitlines() if line.strip()]
    parts = [f"## {section.partition(':')[0]}\n\n```yaml\n{section.rstrip()}\n```" for section in sections]
    return "\n\n".join(["# Params", " ".join(lines), *parts]) + "\n"


def _said(column: Column) -> str:
    """Return what a column holds and may hold."""
    known = [
        column.doc,
        f"one of {', '.join(f'`{choice}`' for choice in column.choices)}" if column.choices else "",
        "may be null" if column.null else "",
    ]
    return "; ".join(part for part in known if part).replace("|", "\\|")


def tables_page() -> str:
    """Return the page of all tables."""
    parts = [
        "# Tables",
        "Parquet files; each is checked against this when it is written and when it is read.",
    ]
    for table in TABLES.values():
        rows = [f"| `{name}` | {column.type} | {_said(column)} |" for name, column in table.columns.items()]
        key = ", ".join(f"`{name}`" for name in table.key)
        parts.append(
            "\n".join(
                [f"## {table.name}\n", f"Key: {key}\n", "| column | type | what |", "|---|---|---|", *rows]
            )
        )
    return "\n\n".join(parts) + "\n"


def formats() -> str:
    """Return the page of all benchmarks and backends."""
    parts = ["# Formats and backends", "## Benchmarks", "What `caramel benchmarks NAME` says of each."]
    for name in registry.BENCHMARKS:
        found = registry.BENCHMARKS[name]
        parts.append(
            f"### {name}\n\n```text\n{found.layout}\n```\n\nMetrics: {', '.join(f'`{m}`' for m in found.metrics)}. "
            f"Checked against: {found.confirmed}"
        )
    parts.append("## Backends\n\nWhat a knob or a spec may name; `registry.py` says where each is.")
    kinds = [kind for kind in vars(registry).values() if isinstance(kind, registry.Registry)]
    parts += [
        f"- **{kind.name}**: {', '.join(f'`{name}`' for name in kind)}"
        for kind in kinds
        if kind is not registry.BENCHMARKS
    ]
    return "\n\n".join(parts) + "\n"
