"""Types of options that several commands have."""

from __future__ import annotations

import click

# What is drawn takes seeds of 32 bits, and some draws of a command take the next ones.
SEED = click.IntRange(0, 2**32 - 100)
