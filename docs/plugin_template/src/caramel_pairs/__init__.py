"""One backend of each type for caramel: a benchmark, a model family, a blind scorer, a training method and a judge."""
