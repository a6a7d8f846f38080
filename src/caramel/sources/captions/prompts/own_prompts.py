"""Check a folder of the user's own prompts before any request: every step is there and takes what caramel gives it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from caramel.errors import CaramelError, DataError, format_items
from caramel.sources.captions.prompts.prompt_files import (
    FOLDER,
    OF_GRAPHS,
    Prompt,
    list_prompt_names,
    load_prompt,
)


def find_own_prompts(folder: str) -> str:
    """Return the folder if it has prompts; "" if it has no ``.yaml`` file, which means caramel's own.

    Raises:
        DataError: the folder does not exist, a step is missing or unknown, a file is not a prompt, or a prompt names
            other inputs or answers than its step has. The message lists everything.
    """
    path = Path(folder)
    if not path.is_dir():
        raise DataError(
            f"negatives.language_model.prompts = {folder!r} is not a folder. Create it, empty or with prompts."
        )
    names = {file.stem for file in path.glob("*.yaml")}
    if not names:
        return ""
    steps = [name for name in list_prompt_names() if name != OF_GRAPHS]
    problems = [f"{name}.yaml is missing" for name in steps if name not in names]
    problems += [
        f"{name}.yaml is of no step; steps: {', '.join(steps)}" for name in sorted(names.difference(steps))
    ]
    problems += [
        f"{name}.yaml: {problem}"
        for name in steps
        if name in names
        for problem in _find_problems(name, folder)
    ]
    if problems:
        raise DataError(
            f"negatives.language_model.prompts = {folder!r} cannot be used:\n{format_items(problems, 20)}\n"
            f"Copy caramel's files from {str(FOLDER)!r}, all but {OF_GRAPHS}.yaml, and change task, rules and examples only."
        )
    return folder


def _find_problems(name: str, folder: str) -> list[str]:
    """Return what is wrong with a prompt."""
    try:
        prompt = load_prompt(name, folder)
    except ValidationError as error:
        first = error.errors()[0]
        return [f"{'.'.join(map(str, first['loc'])) or 'file'}: {first['msg']}"]
    except CaramelError as error:
        return [str(error)]
    known = load_prompt(name)
    problems = _compare("placeholder", prompt.given, known.given)
    if dict(prompt.answer) != dict(known.answer):
        problems.append(f"answer must be {dict(known.answer)}, not {dict(prompt.answer)}")
    return problems or _find_example_problems(prompt)


def _find_example_problems(prompt: Prompt) -> list[str]:
    for number, example in enumerate(prompt.examples, start=1):
        for what, names, known in (
            ("placeholder", [*example.given], prompt.given),
            ("field", [*example.answer], [*prompt.answer]),
        ):
            if problems := _compare(what, names, known):
                return [f"example {number}: {problem}" for problem in problems]
    return []


def _compare(what: str, names: list[str], known: list[str]) -> list[str]:
    """Return a line for each unknown and each missing name."""
    return [
        *(
            f"unknown {what} {name!r}; this step has: {', '.join(known)}"
            for name in names
            if name not in known
        ),
        *(f"{what} {name!r} is missing" for name in known if name not in names),
    ]
