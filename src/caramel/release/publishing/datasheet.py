"""Write ``DATASHEET.md``: the datasheet's questions with derived answers and the authors' answers.

A question without an answer is marked, and the release lists it as an open point.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from caramel.release.publishing.escaping import escape_markdown, escape_paragraphs
from caramel.release.publishing.metadata import About
from caramel.release.publishing.questions import QUESTIONS, Question

OPEN = "**To be answered by the authors.**"


def list_unanswered(about: About, known: Mapping[int, str]) -> list[str]:
    """Return one line for each unanswered question that only the authors can answer, and for each unknown question."""
    keys = {question.key for question in QUESTIONS}
    nothing = [
        f"answers.{key}: unknown question; they are q1 to {QUESTIONS[-1].key}"
        for key in about.answers
        if key not in keys
    ]
    return nothing + [
        f"answers.{question.key}: not answered{' (nor `people: false`)' if question.people else ''}: {question.text}"
        for question in QUESTIONS
        if not (question.optional or format_answer(question, about, known))
    ]


def format_answer(question: Question, about: About, known: Mapping[int, str]) -> str:
    """Return the answer in Markdown; "" if there is none."""
    author_answer = about.answers.get(question.key)
    parts = [
        part
        for part in (known.get(question.number), escape_paragraphs(author_answer) if author_answer else None)
        if part
    ]
    if not parts and question.people and not _is_about_people(about, known):
        return "Not applicable: the data does not relate to people."
    return "\n\n".join(parts)


def _is_about_people(about: About, known: Mapping[int, str]) -> bool:
    """Return whether the data relates to people, or nobody stated that it does not.

    The text of an answer does not count.
    """
    return about.people is not False and not known.get(17, "").startswith("No.")


def write_datasheet(about: About, known: Mapping[int, str], title: str, folder: Path) -> None:
    """Write ``DATASHEET.md``."""
    lines = [f"# Datasheet: {escape_markdown(title)}"]
    lines.append(
        "The questions follow the datasheet of SugarCrepe++. Answers come from the tables, params and figures of the "
        "pinned version, and from its authors."
    )
    section = ""
    for question in QUESTIONS:
        given = format_answer(question, about, known)
        if question.optional and not given:
            continue
        if question.section != section:
            section = question.section
            lines.append(f"## {section}")
        lines += [f"**{question.number}. {question.text}**", given or OPEN]
    (folder / "DATASHEET.md").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
