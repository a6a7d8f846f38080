"""Section of what people decided."""

from __future__ import annotations

from caramel.config.fields import Section


class Annotation(Section):
    """What people judged: decisions that stages use, and the answers of a human baseline."""

    data_dir: str

    @property
    def paraphrases_dir(self) -> str:
        """Folder of the decisions on paraphrases."""
        return f"{self.data_dir}/paraphrases"

    @property
    def images_dir(self) -> str:
        """Folder of the decisions on images."""
        return f"{self.data_dir}/images"

    @property
    def baseline_dir(self) -> str:
        """Folder of the answers of a human baseline."""
        return f"{self.data_dir}/baseline"
