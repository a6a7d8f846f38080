"""The questions of a datasheet, in the order and by the numbers of SugarCrepe++ (arXiv 2406.11171), appendix L, in own words."""

from __future__ import annotations

from typing import NamedTuple

MOTIVATION, COMPOSITION, COLLECTION = "Motivation", "Composition", "Collection"
PREPROCESSING, USES, DISTRIBUTION, MAINTENANCE = "Preprocessing", "Uses", "Distribution", "Maintenance"


class Question(NamedTuple):
    """One question; the answers file calls it ``q`` and its number."""

    number: int
    section: str
    text: str
    optional: bool = False  # there may be nothing to say
    people: bool = False  # asked only of data that relates to people

    @property
    def key(self) -> str:
        """Return its name in the answers file."""
        return f"q{self.number}"


def _build_open_question(number: int, section: str) -> Question:
    return Question(number, section, "Is there anything else to say?", optional=True)


QUESTIONS = (
    Question(1, MOTIVATION, "What was it made for, and which gap does it fill?"),
    Question(2, MOTIVATION, "Who made it, and for whom?"),
    Question(3, MOTIVATION, "Who paid for it?"),
    _build_open_question(4, MOTIVATION),
    Question(5, COMPOSITION, "What is one instance, and are there several kinds?"),
    Question(6, COMPOSITION, "How many are there of each kind?"),
    Question(7, COMPOSITION, "Is it all there is, or a sample of something larger?"),
    Question(8, COMPOSITION, "What does an instance hold?"),
    Question(9, COMPOSITION, "What is its label or target?"),
    Question(10, COMPOSITION, "What is missing from some instances, and why?"),
    Question(11, COMPOSITION, "How are relations between instances told?"),
    Question(12, COMPOSITION, "Which splits are recommended, and why these?"),
    Question(13, COMPOSITION, "Which errors, noise and redundancies are known?"),
    Question(14, COMPOSITION, "Does it stand alone, or rely on what lies elsewhere?"),
    Question(15, COMPOSITION, "Is any of it confidential?"),
    Question(16, COMPOSITION, "Could some of it offend, insult, threaten or frighten?"),
    Question(17, COMPOSITION, "Does it relate to people?"),
    Question(18, COMPOSITION, "Does it tell groups of people apart, as by age or gender?", people=True),
    Question(19, COMPOSITION, "Can persons be identified from it, alone or with other data?", people=True),
    Question(
        20,
        COMPOSITION,
        "Does it hold what is sensitive: origin, belief, health, location, finances?",
        people=True,
    ),
    _build_open_question(21, COMPOSITION),
    Question(22, COLLECTION, "How was the data of an instance come by: seen, reported or derived?"),
    Question(
        23, COLLECTION, "By which programs, devices or hands was it collected, and how were these checked?"
    ),
    Question(24, COLLECTION, "How was the sample drawn?"),
    Question(25, COLLECTION, "Who took part in collecting it, and how were they paid?"),
    Question(26, COLLECTION, "Over which time was it collected, and is that the time of what it shows?"),
    Question(27, COLLECTION, "Was there an ethical review, and what came of it?"),
    Question(28, COLLECTION, "Was it collected of people?"),
    Question(29, COLLECTION, "Was it had from these people themselves, or from others?", people=True),
    Question(30, COLLECTION, "Were they told?", people=True),
    Question(31, COLLECTION, "Did they agree?", people=True),
    Question(32, COLLECTION, "How can they take that back?", people=True),
    Question(33, COLLECTION, "Was it looked into what it may do to them?", people=True),
    _build_open_question(34, COLLECTION),
    Question(35, PREPROCESSING, "What was done to the data: cleaned, filtered, labelled?"),
    Question(36, PREPROCESSING, "Is the raw data kept, and where?"),
    Question(37, PREPROCESSING, "Where is the software that did it?"),
    _build_open_question(38, PREPROCESSING),
    Question(39, USES, "What has it been used for?"),
    Question(40, USES, "Where are papers or systems listed that use it?"),
    Question(41, USES, "What else could it be used for?"),
    Question(42, USES, "What about it may matter to future uses?"),
    Question(43, USES, "What should it not be used for?"),
    _build_open_question(44, USES),
    Question(45, DISTRIBUTION, "Will it be given to others than those for whom it was made?"),
    Question(46, DISTRIBUTION, "How is it given out, and has it a DOI?"),
    Question(47, DISTRIBUTION, "When is it given out?"),
    Question(48, DISTRIBUTION, "Under which licence or terms?"),
    Question(49, DISTRIBUTION, "What do third parties ask of those who use it?"),
    Question(50, DISTRIBUTION, "Do export controls or other rules apply?"),
    _build_open_question(51, DISTRIBUTION),
    Question(52, MAINTENANCE, "Who hosts and maintains it?"),
    Question(53, MAINTENANCE, "How are they reached?"),
    Question(54, MAINTENANCE, "Where are errors listed that were found later?"),
    Question(55, MAINTENANCE, "Will it be updated: how often, by whom, and how is that told?"),
    Question(56, MAINTENANCE, "How long may data of people be kept?", people=True),
    Question(57, MAINTENANCE, "What becomes of older versions?"),
    Question(58, MAINTENANCE, "How can others add to it, and how is that checked?"),
    _build_open_question(59, MAINTENANCE),
)
