"""Columns of ``bounds.csv`` and ``probes.csv``, apart from the code that fills them, so that who reads them depends on no model."""

from __future__ import annotations

BOUND_COLUMNS = ("benchmark", "subset", "n", "base", "words", "exact", "base_differs", "runs_differ")
PROBE_COLUMNS = ("model", "target", "n", "chance", "accuracy", "ci_low", "ci_high")
PIXELS = "pixels"  # what stands as model of the probes' positive control
# Targets of the probes.
CELLS, NOUN, RELATION, WORD = "filled cells", "cell of a noun", "relation of the nouns", "relation word"
