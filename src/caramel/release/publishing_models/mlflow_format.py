"""Load a registered checkpoint for MLflow from its config and safetensors, without unpickling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caramel.errors import DataError
from caramel.models.open_clip.checkpoints import load_encoder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from caramel.models.open_clip.encoder import ClipEncoder


@dataclass(frozen=True)
class Predictor:
    """The model that ``mlflow.pyfunc.load_model`` wraps; ``unwrap_python_model().encoder`` is the encoder."""

    encoder: ClipEncoder

    def predict(self, frame: Any, params: Any = None) -> npt.NDArray[np.float32]:
        """Return unit vectors, shape (rows, d), of column ``caption`` (texts) or ``image`` (encoded files).

        Raises:
            DataError: the data frame has neither column.
        """
        for column, encode in (("caption", self.encoder.encode_texts), ("image", self.encoder.encode_images)):
            if column in frame:
                return encode(list(frame[column]), None)
        raise DataError(f"Give a column 'caption' or 'image'. The columns are {', '.join(map(repr, frame))}.")


def _load_pyfunc(folder: str) -> Predictor:
    """Return the model of a folder; MLflow calls this function by its name."""
    return Predictor(load_encoder(folder, device="auto", precision="fp32", name=Path(folder).name))
