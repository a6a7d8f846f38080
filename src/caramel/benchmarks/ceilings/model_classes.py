"""Define classes of models that do not see some part of an instance.

A model of a class sees a view of each text and image: it gives equal views equal similarities. All else about
it is free, so a class holds every model, of any size and training, whose similarity is a function of the views.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from caramel.sources.captions.word_classes import assign_word_classes
from caramel.utils.text import extract_words

TextView = Callable[[str], Hashable]
OBJECT_CLASSES = frozenset({"noun"})
ATTRIBUTE_CLASSES = frozenset({"adjective", "number"})


@dataclass(frozen=True)
class ModelClass:
    """A class of models.

    Attributes:
        doc: what a model of the class sees.
        view_text: view of a text; texts with equal views have equal similarities.
        sees_images: whether the model sees images; if not, all images are one to it.
    """

    doc: str
    view_text: TextView
    sees_images: bool = True


def split_unhyphenated_words(text: str) -> list[str]:
    """Return the lower-case words in order, without punctuation; hyphens separate words and apostrophes do not."""
    return [part for word in extract_words(text) for part in word.split("-") if part]


def count_words(text: str) -> Hashable:
    """Return the bag of words: each word as often as it occurs, without order, case and punctuation."""
    return tuple(sorted(split_unhyphenated_words(text)))


def _count_words_of_classes(text: str, classes: frozenset[str]) -> Hashable:
    """Return the bag of those words of a text that have one of the classes.

    Each word is classified alone. With its neighbours, the class of a form in -ed or -ing would depend on word order,
    and a model of the class could tell two texts apart that are one bag of words.
    """
    return tuple(
        sorted(word for word in split_unhyphenated_words(text) if assign_word_classes([word])[0] in classes)
    )


def count_nouns(text: str) -> Hashable:
    """Return the bag of nouns of a text."""
    return _count_words_of_classes(text, OBJECT_CLASSES)


def count_attributes(text: str) -> Hashable:
    """Return the bag of adjectives and numbers of a text."""
    return _count_words_of_classes(text, ATTRIBUTE_CLASSES)


def _keep_text(text: str) -> Hashable:
    return text


MODEL_CLASSES: Mapping[str, ModelClass] = {
    "bag_of_words": ModelClass("the image, and the words of a text without their order", count_words),
    "nouns_only": ModelClass("the image, and the nouns of a text without their order", count_nouns),
    "attributes_only": ModelClass(
        "the image, and the adjectives and numbers of a text, each by itself", count_attributes
    ),
    "no_image": ModelClass("the texts, but no image", _keep_text, sees_images=False),
}
