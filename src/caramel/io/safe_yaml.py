"""Read YAML files as plain data: mappings with text keys, lists, text, numbers, true, false and null.

YAML allows much more: a few bytes of aliases that expand to gigabytes, documents that contain themselves,
dates, sets and bytes. A params file or a lock file needs none of it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from caramel.errors import ConfigError, format_items, redact_secrets
from caramel.io.regular_files import read_plain

MOST_BYTES = 2**18  # of a file; the largest of caramel's own has 24 thousand
MOST_ENTRIES = 50_000  # of a document with aliases expanded
DEEPEST = 50  # nesting depth
_TEXT = 60  # characters of a value that a message repeats


def read_yaml(path: Path, cure: str) -> Any:
    """Return a YAML 1.2 file as plain data. ``cure`` says what to do if the file is missing.

    Raises:
        ConfigError: the file is missing, cannot be read, or is not plain YAML.
    """
    try:
        content = read_plain(path, MOST_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing. {cure}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path} is not valid YAML here: it is longer than {MOST_BYTES:,} bytes.")
    try:
        return parse_yaml(content.decode(), str(path))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid YAML: it is not UTF-8 ({error.reason}).") from error


def parse_yaml(text: str, where: str) -> Any:
    """Return a YAML 1.2 document as plain data. ``where`` is its location, with which error messages begin.

    Raises:
        ConfigError: the text is not YAML, is not plain data, is too large or too deep, or contains itself.
    """
    return copy.deepcopy(_parse_once(text, where))


@functools.lru_cache(16)
def _parse_once(text: str, where: str) -> Any:
    """Return the value of a document. A process reads ``dvc.yaml`` and ``params.yaml`` several times, 0.06 s each."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        # The nodes are counted first. Aliases and merge keys are expanded only if the result is small.
        yaml = YAML(typ="safe", pure=True)
        document = yaml.compose(text)
        count, _ = _count_entries(document, {})
        if count > MOST_ENTRIES:
            raise ConfigError(
                f"{where} has {count:,} entries with its aliases expanded; at most {MOST_ENTRIES:,} are allowed."
            )
        value = None if document is None else yaml.constructor.construct_document(document)
    except MarkedYAMLError as error:
        location = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        message = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(f"{where} is not valid YAML: {message}{location}.") from error
    except RecursionError:
        raise ConfigError(f"{where} is not valid YAML here: it is nested too deeply.") from None
    # The constructors of !!int, !!bool and dates raise the errors of Python's own conversions.
    except (YAMLError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"{where} is not valid YAML: {error}") from error
    odd = list(_iter_non_plain(value, ""))
    if odd:
        raise ConfigError(
            f"{where} contains values that are not plain data:\n{format_items(odd)}\nQuote them if text is meant."
        )
    return value


def _count_entries(node: Any, counted: dict[int, tuple[int, int]], depth: int = 0) -> tuple[int, int]:
    """Return the number of entries of a node with aliases expanded, and its depth.

    ``counted`` caches other nodes.

    Raises:
        ValueError: the node contains itself, or is too deep.
    """
    from ruamel.yaml.nodes import MappingNode, SequenceNode

    if not isinstance(node, MappingNode | SequenceNode):
        return 1, 0
    if id(node) not in counted and depth <= DEEPEST:
        pairs = isinstance(node, MappingNode)
        parts = [part for pair in node.value for part in pair] if pairs else node.value
        counts = [_count_entries(part, counted, depth + 1) for part in parts]
        counted[id(node)] = (
            1 + sum(n for n, _ in counts),
            1 + max((height for _, height in counts), default=0),
        )
    if id(node) not in counted or depth + counted[id(node)][1] > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep, or contains itself by an alias")
    return counted[id(node)]


def _iter_non_plain(value: Any, key: str) -> Iterator[str]:
    """Yield one line for each value that is not plain: its key and the value."""
    if type(value) is dict:
        for name, part in value.items():
            if type(name) is str:
                yield from _iter_non_plain(name, key)
                yield from _iter_non_plain(part, f"{key}.{name}".lstrip("."))
            else:
                yield f"{key or 'top'}: the key {name!r:.{_TEXT}} is not text"
    elif type(value) is list:
        for part in value:
            yield from _iter_non_plain(part, key)
    elif type(value) is str:
        if any("\ud800" <= sign <= "\udfff" or sign == "\0" for sign in value):
            yield f"{key} = {value!r:.{_TEXT}}: a NUL or half of a surrogate pair, which is not text"
    elif type(value) is int:
        if value.bit_length() > 64:
            yield f"{key}: a whole number of {value.bit_length()} bits"
    elif value is not None and type(value) not in (bool, float):
        yield f"{key or 'top'} = {value!r:.{_TEXT}}: {type(value).__name__}"


def flatten_mapping(values: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one flat mapping by dotted key."""
    if not isinstance(values, Mapping):
        return {prefix: values}
    return {
        k: v
        for name, part in values.items()
        for k, v in flatten_mapping(part, f"{prefix}.{name}".lstrip(".")).items()
    }


def refuse_secrets(values: Mapping[str, Any], where: str) -> None:
    """Check that no text of a params file contains the password or key of a URL.

    Raises:
        ConfigError: one does. Git, ``dvc.lock``, pins, tracked runs and releases repeat the params.
    """
    keys = [key for key, value in flatten_mapping(values).items() if redact_secrets(str(value)) != str(value)]
    if keys:
        raise ConfigError(
            f"{where}: the URL in {', '.join(keys)} contains a password or key, which git, dvc.lock, pins and tracked runs would repeat. "
            f"Remove it, and set it in the environment: CARAMEL_CHAT_KEY is sent to chat endpoints."
        )
