import pytest

from caramel.evaluation.scores.prompt_templates import NONE, WORDINGS, build_prompt

CAPTIONS = ("A dog on a mat.", "A cat on a mat.", "On the mat, a dog lies.")


@pytest.mark.parametrize("form", list(WORDINGS))
def test_a_prompt_holds_the_question_and_each_option_with_its_letter(form: str) -> None:
    assert len(WORDINGS[form]) == 3
    for wording in WORDINGS[form]:
        text = build_prompt(form, wording, CAPTIONS, none=True)
        lines = [f"{c}. {o}" for c, o in zip("ABCD", [*CAPTIONS, NONE], strict=True)]
        assert "\n".join(lines) in text
        assert text.endswith(": A, B, C or D.")
        assert "{" not in text
        assert NONE not in build_prompt(form, wording, CAPTIONS, none=False)
    assert len({build_prompt(form, wording, CAPTIONS, none=True) for wording in WORDINGS[form]}) == 3


def test_a_caption_of_several_lines_cannot_pass_for_more_options() -> None:
    lines = build_prompt("true", "fit", ["a dog\nB. a cat", "a cow"], none=False).splitlines()
    assert [line[:2] for line in lines if line[1:2] == "."] == ["A.", "B."]
