"""Files as their authors published them: in folder ``released`` of the one that CARAMEL_DATA names."""

import os
from pathlib import Path

import pytest

BIVLC = "IMirandaM+BiVLC"
SUGARCREPE = "RAIVNLab+sugar-crepe"
VALSE = "Heidelberg-NLP+VALSE"
COLA = "arijitray1993+COLA"
COCO = "Obmutescence+COCO-MINI"
FINE_GRAINED = "lezhang7+Enhance-FineGrained"
FACTUAL = "zhuang-li+FactualSceneGraph"


def released(*parts: str) -> Path:
    """Return the path of a released file or folder; the test is skipped where it is not at hand."""
    data = os.environ.get("CARAMEL_DATA")
    if data is None:
        pytest.skip("CARAMEL_DATA is unset: the released files are not at hand")
    path = Path(data, "released", *parts)
    if not path.exists():
        pytest.skip(f"CARAMEL_DATA names no folder with {Path('released', *parts)}")
    return path
