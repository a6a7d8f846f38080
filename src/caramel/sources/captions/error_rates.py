"""How often a language model that writes about the world errs, and who notices: its drafts read back and checked exactly.

No published pipeline knows these figures, as nobody knows what is true of a photograph. Here a text is read back to what it
says (``sources.world.grammar``) and compared with its caption and with the scene.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.interfaces.writer import WrittenCaption
from caramel.sources.captions.llm.checks import JUDGES, REASONS
from caramel.sources.captions.rules import ATTRIBUTES
from caramel.sources.world.grammar import Reading, format_sentence, parse_caption
from caramel.sources.world.scenes import Meaning, Mention, Relation, Scene, is_true_of_objects

PARAPHRASE = "paraphrase"
# What may be wrong with a draft. Only what can be read can have one of the others, and may have both.
ERRORS = ("malformed", "wrong_subtype", "still_true", "not_true")
NOISE_COLUMNS = ("subtype", "texts", "requests", "kept", "drafts", *ERRORS, "right", "kept_right")
CHECK_COLUMNS = ("part", "check", "judged", "refused", "precision", "recall", "recall_of_true")


def build_error_tables(
    pairs: pd.DataFrame, llm_output: WrittenCaption, prompts: pd.Series, allow_unmentioned_objects: bool
) -> dict[str, pd.DataFrame]:
    """Return how often a language model erred, ``noise`` and ``checks``; nothing where no pair's scene is known.

    Args:
        pairs: table ``pairs``.
        llm_output: what the model wrote, with its verdicts.
        prompts: of its replies.
        allow_unmentioned_objects: a caption may leave out objects that its picture shows.
    """
    if pairs["scene"].isna().all():
        return {}
    assert llm_output.verdicts is not None
    rows = label_drafts(pairs, llm_output.verdicts, allow_unmentioned_objects=allow_unmentioned_objects)
    paraphrase_ids = llm_output.paraphrases["pair_id"] + ":paraphrase"
    accepted_ids = [*llm_output.negatives["negative_id"], *paraphrase_ids]
    noise = compute_error_rates(rows, accepted_ids, llm_output.rejects["id"].tolist(), prompts)
    return {"noise": noise, "checks": evaluate_checks(rows)}


def label_drafts(
    pairs: pd.DataFrame, verdicts: pd.DataFrame, *, allow_unmentioned_objects: bool
) -> pd.DataFrame:
    """Return table ``verdicts`` with what is so of each draft, of pairs whose scene is known.

    Args:
        pairs: table ``pairs``.
        verdicts: table ``verdicts``.
        allow_unmentioned_objects: a caption may leave out objects that its picture shows.

    Returns:
        The rows, and the columns ``part`` (a subtype, or ``paraphrase``), ``ERRORS`` and ``right``: none of them is so. Of a
        negative ``wrong_subtype`` is any other change than one of its subtype, ``still_true`` that it is true of the scene.
        Of a paraphrase ``wrong_subtype`` is that it does not say the same, ``not_true`` that it is false of the scene.
    """
    names = verdicts["id"].str.extract(r"^(?P<pair_id>.*):(?P<part>\w+)$")
    known = pairs.dropna(subset=["scene"]).set_index("pair_id")[["caption", "scene"]]
    rows = verdicts.join(names).join(known, on="pair_id", how="inner")
    flags = [
        _find_errors(caption, text, part, Scene.from_json(scene), allow_unmentioned_objects)
        for caption, text, part, scene in zip(
            rows["caption"], rows["text"], rows["part"], rows["scene"], strict=True
        )
    ]
    errors = pd.DataFrame(flags, columns=list(ERRORS), index=rows.index, dtype=bool)
    rows = rows.drop(columns=["pair_id", "caption", "scene"]).join(errors)
    return rows.assign(right=~errors.any(axis=1))


def _find_errors(
    caption: str, text: str, part: str, scene: Scene, allow_unmentioned_objects: bool
) -> tuple[bool, bool, bool, bool]:
    """Return what is wrong with a text, in the order of ``ERRORS``."""
    original, edited = parse_caption(caption), parse_caption(format_sentence(text))
    assert original is not None, caption
    if edited is None:
        return True, False, False, False
    true = is_true_of_objects(
        edited.whole, scene.things, exactly=edited.alone or not allow_unmentioned_objects
    )
    if part == PARAPHRASE:
        same = original.whole.canonicalise() == edited.whole.canonicalise()
        return False, not same, False, not true
    return False, not CHANGED[part](original, edited), true, False


def _count_differences(original: Reading, edited: Reading) -> Counter[str] | None:
    """Return how many nouns, attributes, relations and positions differ, and how many come anew; None: more than such words.

    A position counts as a relation, as ``replace_rel`` replaces either.
    """
    if len(original.whole.mentions) != len(edited.whole.mentions) or original.alone != edited.alone:
        return None
    counts: Counter[str] = Counter()
    for old, new in zip(original.whole.mentions, edited.whole.mentions, strict=True):
        counts["noun"] += old.noun != new.noun
        for attribute in ATTRIBUTES:
            before, after = getattr(old, attribute), getattr(new, attribute)
            counts["new" if before is None else "gone" if after is None else "attribute"] += before != after
        both = old.position and new.position  # a position that comes or goes is no change of any subtype
        counts["relation" if both else "gone"] += old.position != new.position
    old_ends, new_ends = ([(r.subject, r.object) for r in m.whole.relations] for m in (original, edited))
    if old_ends != new_ends:
        return None
    counts["relation"] += sum(
        a.predicate != b.predicate
        for a, b in zip(original.whole.relations, edited.whole.relations, strict=True)
    )
    return +counts


def _build_change_check(what: str) -> Callable[[Reading, Reading], bool]:
    return lambda original, edited: _count_differences(original, edited) == Counter({what: 1})


def _count_words(meaning: Meaning, *fields: str) -> list[Counter[str]]:
    return [Counter(str(getattr(m, field)) for m in meaning.mentions) for field in fields]


def _has_swapped_nouns(original: Reading, edited: Reading) -> bool:
    """Return whether two nouns changed places, with their attributes or without."""
    differences = _count_differences(original, edited)
    alike = _count_words(original.whole, "noun", *ATTRIBUTES) == _count_words(
        edited.whole, "noun", *ATTRIBUTES
    )
    return differences is not None and differences["noun"] == 2 and not differences["relation"] and alike


def _has_swapped_attributes(original: Reading, edited: Reading) -> bool:
    """Return whether attributes of one kind of two objects changed places."""
    alike = _count_words(original.whole, *ATTRIBUTES) == _count_words(edited.whole, *ATTRIBUTES)
    return alike and _count_differences(original, edited) == Counter({"attribute": 2})


def _has_added_object(original: Reading, edited: Reading) -> bool:
    """Return whether one object more is named, and all else is said as before."""
    mentions = edited.whole.mentions
    for index in range(len(mentions)):
        rest = mentions[:index] + mentions[index + 1 :]
        if Meaning(rest, _drop_mention_relations(edited.whole, index)) == original.whole and mentions[
            index
        ].noun not in _collect_nouns(rest):
            return True
    return False


def _drop_mention_relations(meaning: Meaning, index: int) -> tuple[Relation, ...]:
    """Return the relations without those of a mention, their ends counted without it."""
    relations = (r for r in meaning.relations if index not in (r.subject, r.object))
    return tuple(
        Relation(r.subject - (r.subject > index), r.predicate, r.object - (r.object > index))
        for r in relations
    )


def _collect_nouns(mentions: tuple[Mention, ...]) -> set[str]:
    return {m.noun for m in mentions}


CHANGED: Mapping[str, Callable[[Reading, Reading], bool]] = {
    "replace_obj": _build_change_check("noun"),
    "replace_att": _build_change_check("attribute"),
    "replace_rel": _build_change_check("relation"),
    "swap_obj": _has_swapped_nouns,
    "swap_att": _has_swapped_attributes,
    "add_obj": _has_added_object,
    "add_att": _build_change_check("new"),
}


def compute_error_rates(
    rows: pd.DataFrame, kept_ids: Collection[str], dropped_ids: Collection[str], prompts: pd.Series
) -> pd.DataFrame:
    """Return the noise table: ``NOISE_COLUMNS``, one row for each part and one for ``all``.

    Args:
        rows: of ``judged``.
        kept_ids: ids of the texts that were kept (of paraphrases PAIR:paraphrase).
        dropped_ids: ids of those that were asked for in vain.
        prompts: column ``prompt`` of table ``replies``. What several subtypes ask together (``find_…``, the validator of
            negatives) is counted in ``all`` alone, what judges of texts were asked nowhere.
    """
    prompts = prompts.str.split("@").str[0]
    prompts = prompts[~prompts.isin(JUDGES)]
    requests_per_part = prompts.map(_get_prompt_part).value_counts()
    texts = pd.Series([*kept_ids, *dropped_ids], dtype=str).str.rpartition(":")[2].value_counts()
    last = rows["id"].isin(set(kept_ids)) & ~rows["id"].duplicated(keep="last")
    records = []
    for part in [*(name for name in (*CHANGED, PARAPHRASE) if name in texts), "all"]:
        part_mask = (rows["part"] == part) | (part == "all")
        part_rows = rows[part_mask]
        records.append(
            {
                "subtype": part,
                "texts": int(texts.sum() if part == "all" else texts[part]),
                "requests": len(prompts) if part == "all" else int(requests_per_part.get(part, 0)),
                "kept": int(last[part_mask].sum()),
                "drafts": len(part_rows),
                **part_rows[[*ERRORS, "right"]].sum().astype(int),
                "kept_right": int((last[part_mask] & part_rows["right"]).sum()),
            }
        )
    return pd.DataFrame(records, columns=list(NOISE_COLUMNS))


def _get_prompt_part(name: str) -> str:
    """Return the part that a prompt serves alone; "" if several."""
    operation, _, rest = name.partition("_")
    if operation == "find" or name == "validate_negative":
        return ""
    return PARAPHRASE if name.endswith(PARAPHRASE) else f"{operation}_{rest.partition('_')[0]}"


def evaluate_checks(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how well each check finds what is wrong: ``CHECK_COLUMNS``, for negatives and paraphrases.

    Args:
        rows: of ``judged``.

    Returns:
        Of the drafts that the check ``judged`` how many it ``refused``; ``precision``: share of these that are wrong;
        ``recall``: share of the wrong ones that it refuses, of all wrong ones and (``recall_of_true``) of negatives that are
        still true, or paraphrases that are false. NaN where there is none.
    """
    records = []
    for part in ("negatives", "paraphrases"):
        part_rows = rows[(rows["part"] == PARAPHRASE) == (part == "paraphrases")]
        for name in REASONS:
            checked = part_rows[part_rows[name].notna()]
            if checked.empty:
                continue
            refused, wrong = ~checked[name].to_numpy(bool), ~checked["right"].to_numpy(bool)
            of_truth = (checked["still_true"] | checked["not_true"]).to_numpy(bool)
            shares = (
                _compute_share(wrong, refused),
                _compute_share(refused, wrong),
                _compute_share(refused, of_truth),
            )
            records.append((part, name, len(checked), int(refused.sum()), *shares))
    return pd.DataFrame(records, columns=list(CHECK_COLUMNS))


def _compute_share(what: npt.NDArray[np.bool_], among: npt.NDArray[np.bool_]) -> float:
    return float(what[among].mean()) if among.any() else float("nan")
