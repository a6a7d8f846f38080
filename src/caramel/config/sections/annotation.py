"""Section of what people decided."""

from __future__ import annotations

from caramel.config.fields import Section


class Annotation(Section):
    """What people judged: decisions that stages use, and the answers of a human baseline."""

    data_dir: str
