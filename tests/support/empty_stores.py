"""New stores of MLflow as copies of an empty one: each would go through dozens of migrations, which take two seconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Engine


def build_initialization(first: Path) -> Callable[[Engine], None]:
    """Return what can stand for MLflow's own ``_initialize_tables``: it makes ``first``, and copies it to each new store."""
    from mlflow.store.db import utils
    from sqlalchemy import create_engine

    migrate = utils._initialize_tables

    def initialize(engine: Engine) -> None:
        if not first.exists():
            new = first.with_suffix(".new")
            new.unlink(missing_ok=True)
            migrate(create_engine(f"sqlite:///{new}"))
            new.rename(first)
        with closing(engine.raw_connection()) as store:
            if store.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                with closing(sqlite3.connect(first)) as empty:
                    empty.backup(store.driver_connection)
                return
        migrate(engine)  # what is in a store is for MLflow to judge

    return initialize
