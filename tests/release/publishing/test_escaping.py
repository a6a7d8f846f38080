"""What was put into Markdown is read back as what it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from caramel.release.publishing.escaping import escape_markdown, flatten_text, format_code, strip_markdown

TEXTS = st.text(st.sampled_from('a1 \\`*_{}[]|~$@^#+=>-:/.)&<lt;"é\n')) | st.text()


@given(TEXTS)
def test_a_text_comes_back(text: str) -> None:
    assert strip_markdown(escape_markdown(text)) == flatten_text(text)


@given(TEXTS, TEXTS)
def test_a_name_in_letters_of_code_comes_back_with_its_own_backslashes_and_backticks(
    name: str, beside: str
) -> None:
    assert strip_markdown(format_code(f"x{name}x")) == flatten_text(f"x{name}x")
    if flatten_text(name):
        said = f"{escape_markdown(beside)} {format_code(name)}"
        assert strip_markdown(said) == f"{flatten_text(beside)} {flatten_text(name)}".strip()
