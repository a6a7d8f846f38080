"""The run of stage ``negatives`` that commands about its requests refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from caramel.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from caramel.interfaces.writer import Part


class CaptionRun(NamedTuple):
    """Inputs of ``language_negatives``: the pairs, and its further arguments by name."""

    pairs: pd.DataFrame
    settings: dict[str, Any]

    @property
    def parts(self) -> list[Part]:
        """Return the parts that a language model writes."""
        parts: list[Part] = self.settings["parts"]
        return parts


def load_caption_run() -> CaptionRun:
    """Return the pairs and the settings of params.yaml.

    Raises:
        ConfigError, BackendError: the params are invalid, or no language model is configured in them.
        DataError: stage ``scenes`` has not run.
    """
    from caramel.config.schema import load_config
    from caramel.config.validate import check_language_model
    from caramel.schemas.io import read_table
    from caramel.schemas.pairs import PAIRS

    config = load_config()
    check_language_model(config)
    section = config.negatives
    backends: dict[Part, str] = {
        "negatives": section.backend,
        "paraphrases": section.paraphrases or section.backend,
    }
    parts = [part for part, backend in backends.items() if backend == "language_model"]
    if not parts:
        raise ConfigError(
            f"Profile {config.profile!r} uses no language model: set negatives.backend or negatives.paraphrases to "
            f"'language_model'."
        )
    settings = {
        "seed": section.seed,
        "max_attempts": section.max_attempts,
        "parts": parts,
        "model": section.language_model.model_dump() | {"spacy_model": section.spacy_model},
    }
    return CaptionRun(read_table(PAIRS, "data/scenes/pairs.parquet"), settings)
