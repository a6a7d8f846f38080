"""Define the columns of ``bounds.csv`` and ``probes.csv``.

They are separate from the code that computes them, so that readers of these files depend on no model.
"""

from __future__ import annotations

BOUND_COLUMNS = ("benchmark", "subset", "n", "base", "words", "exact", "base_differs", "runs_differ")
PROBE_COLUMNS = ("model", "target", "n", "chance", "accuracy", "ci_low", "ci_high")
PIXELS = "pixels"  # value of column ``model`` for the probes' positive control
# Targets of the probes.
CELLS, NOUN, RELATION, WORD = "filled cells", "cell of a noun", "relation of the nouns", "relation word"
