"""The questions of a datasheet in our own words, in the order and numbering of SugarCrepe++ (arXiv 2406.11171), appendix L."""

from __future__ import annotations

from typing import NamedTuple

MOTIVATION, COMPOSITION, COLLECTION = "Motivation", "Composition", "Collection"
PREPROCESSING, USES, DISTRIBUTION, MAINTENANCE = "Preprocessing", "Uses", "Distribution", "Maintenance"


class Question(NamedTuple):
    """One question; the answers file names it ``q`` and its number."""

    number: int
    section: str
    text: str
    optional: bool = False  # the answer may be empty
    people: bool = False  # asked only about data that relates to people

    @property
    def key(self) -> str:
        """Return the question's key in the answers file."""
        return f"q{self.number}"


def _build_open_question(number: int, section: str) -> Question:
    return Question(number, section, "Is there anything else to mention?", optional=True)


QUESTIONS = (
    Question(1, MOTIVATION, "Why was it made, and which gap does it fill?"),
    Question(2, MOTIVATION, "Who made it, and for whom?"),
    Question(3, MOTIVATION, "Who funded it?"),
    _build_open_question(4, MOTIVATION),
    Question(5, COMPOSITION, "What is one instance, and are there several kinds?"),
    Question(6, COMPOSITION, "How many instances are there of each kind?"),
    Question(7, COMPOSITION, "Is it complete, or a sample of a larger set?"),
    Question(8, COMPOSITION, "What does an instance consist of?"),
    Question(9, COMPOSITION, "What is its label or target?"),
    Question(10, COMPOSITION, "What is missing from some instances, and why?"),
    Question(11, COMPOSITION, "How are relations between instances recorded?"),
    Question(12, COMPOSITION, "Which splits are recommended, and why these?"),
    Question(13, COMPOSITION, "Which errors, noise and redundancies are known?"),
    Question(14, COMPOSITION, "Is it self-contained, or does it rely on external resources?"),
    Question(15, COMPOSITION, "Is any of it confidential?"),
    Question(16, COMPOSITION, "Could some of it offend, insult, threaten or frighten?"),
    Question(17, COMPOSITION, "Does it relate to people?"),
    Question(
        18, COMPOSITION, "Does it identify groups of people, for example by age or gender?", people=True
    ),
    Question(19, COMPOSITION, "Can persons be identified from it, alone or with other data?", people=True),
    Question(
        20,
        COMPOSITION,
        "Does it hold sensitive data: origin, belief, health, location, finances?",
        people=True,
    ),
    _build_open_question(21, COMPOSITION),
    Question(22, COLLECTION, "How was the data of an instance acquired: observed, reported or derived?"),
    Question(23, COLLECTION, "Which programs, devices or people collected it, and how were these validated?"),
    Question(24, COLLECTION, "How was the sample drawn?"),
    Question(25, COLLECTION, "Who took part in collecting it, and how were they paid?"),
    Question(
        26, COLLECTION, "Over which period was it collected, and does its content date from that period?"
    ),
    Question(27, COLLECTION, "Was there an ethical review, and what was its outcome?"),
    Question(28, COLLECTION, "Was it collected from or about people?"),
    Question(
        29, COLLECTION, "Was it collected from these people directly, or from third parties?", people=True
    ),
    Question(30, COLLECTION, "Were they notified?", people=True),
    Question(31, COLLECTION, "Did they consent?", people=True),
    Question(32, COLLECTION, "How can they revoke their consent?", people=True),
    Question(33, COLLECTION, "Was the potential impact on them analysed?", people=True),
    _build_open_question(34, COLLECTION),
    Question(35, PREPROCESSING, "Was the data cleaned, filtered or labelled, and how?"),
    Question(36, PREPROCESSING, "Was the raw data saved, and where?"),
    Question(37, PREPROCESSING, "Where is the software for this available?"),
    _build_open_question(38, PREPROCESSING),
    Question(39, USES, "What has it been used for?"),
    Question(40, USES, "Where are papers or systems that use it listed?"),
    Question(41, USES, "What else could it be used for?"),
    Question(42, USES, "Which of its properties may affect future uses?"),
    Question(43, USES, "What should it not be used for?"),
    _build_open_question(44, USES),
    Question(45, DISTRIBUTION, "Will it be distributed to third parties?"),
    Question(46, DISTRIBUTION, "How is it distributed, and does it have a DOI?"),
    Question(47, DISTRIBUTION, "When is it distributed?"),
    Question(48, DISTRIBUTION, "Under which licence or terms?"),
    Question(49, DISTRIBUTION, "Which restrictions do third parties impose?"),
    Question(50, DISTRIBUTION, "Do export controls or other rules apply?"),
    _build_open_question(51, DISTRIBUTION),
    Question(52, MAINTENANCE, "Who hosts and maintains it?"),
    Question(53, MAINTENANCE, "How can they be contacted?"),
    Question(54, MAINTENANCE, "Where are later corrections listed?"),
    Question(55, MAINTENANCE, "Will it be updated: how often, by whom, and how are updates announced?"),
    Question(56, MAINTENANCE, "How long may data of people be kept?", people=True),
    Question(57, MAINTENANCE, "What happens to older versions?"),
    Question(58, MAINTENANCE, "How can others contribute, and how are contributions validated?"),
    _build_open_question(59, MAINTENANCE),
)
