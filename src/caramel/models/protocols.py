"""The forms of models (``caramel.kinds.model``), handed on to the families."""

from caramel.kinds.model import Embeddings as Embeddings
from caramel.kinds.model import Family as Family
from caramel.kinds.model import Identity as Identity
from caramel.kinds.model import Question as Question
from caramel.kinds.model import Reply as Reply
