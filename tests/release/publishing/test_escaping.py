"""What was put into Markdown is read back as what it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from caramel.release.publishing.escaping import code, markdown, one_line, plain

TEXTS = st.text(st.sampled_from('a1 \\`*_{}[]|~$@^#+=>-:/.)&<lt;"é\n')) | st.text()


@given(TEXTS)
def test_a_text_comes_back(text: str) -> None:
    assert plain(markdown(text)) == one_line(text)


@given(TEXTS, TEXTS)
def test_a_name_in_letters_of_code_comes_back_with_its_own_backslashes_and_backticks(
    name: str, beside: str
) -> None:
    assert plain(code(f"x{name}x")) == one_line(f"x{name}x")
    if one_line(name):
        said = f"{markdown(beside)} {code(name)}"
        assert plain(said) == f"{one_line(beside)} {one_line(name)}".strip()
