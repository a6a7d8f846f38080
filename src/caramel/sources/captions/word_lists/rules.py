"""The rules of backend ``lexicon``: one for each subtype of SugarCrepe."""

from caramel.sources.captions.word_lists.additions import add_obj
from caramel.sources.captions.word_lists.attributes import add_att, replace_att, swap_att
from caramel.sources.captions.word_lists.heads import Rule
from caramel.sources.captions.word_lists.objects import replace_obj, swap_obj
from caramel.sources.captions.word_lists.relations import replace_rel

RULES: dict[str, Rule] = {
    "replace_obj": replace_obj,
    "replace_att": replace_att,
    "replace_rel": replace_rel,
    "swap_obj": swap_obj,
    "swap_att": swap_att,
    "add_obj": add_obj,
    "add_att": add_att,
}
