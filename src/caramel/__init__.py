"""caramel: dataset-versioned experiments on vision-language compositionality."""

__version__ = "0.1.0"
