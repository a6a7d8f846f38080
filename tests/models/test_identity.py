"""Hashes of which the identity of a model is made."""

from __future__ import annotations

import pytest

import caramel
from caramel.models import identity
from caramel.models.identity import get_package_versions, hash_settings
from caramel.models.open_clip.loader import load_open_clip
from caramel.models.transformers.text_encoders import load_text


def test_a_hash_of_settings_leaves_out_where_they_were_written() -> None:
    settings = {"size": [1, 2], "inner": {"a": 1}}
    recorded = {
        **settings,
        "_name_or_path": "x",
        "transformers_version": "5",
        "inner": {"a": 1, "vocab_file": "y"},
    }
    assert hash_settings(settings) == hash_settings(recorded)
    assert hash_settings(settings) != hash_settings({"size": [1, 2], "inner": {"a": 2}})


@pytest.mark.parametrize("library", ["caramel", "torch", "pillow", "transformers"])
def test_another_version_of_a_library_is_another_identity(
    library: str, clip_folder, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from small_transformers import bert_folder

    folder = bert_folder(tmp_path)

    def identities_now() -> list[object]:
        return [
            load(str(target), device="cpu", precision="fp32", name="it").identity
            for load, target in ((load_open_clip, clip_folder), (load_text, f"{folder}?pooling=mean"))
        ]

    before, version = identities_now(), identity.metadata.version
    monkeypatch.setattr(identity.metadata, "version", lambda p: "0" if p == library else version(p))
    assert all(one != other for one, other in zip(before, identities_now(), strict=True))


def test_the_version_in_an_identity_is_the_one_that_the_package_says() -> None:
    assert get_package_versions()["caramel"] == caramel.__version__
