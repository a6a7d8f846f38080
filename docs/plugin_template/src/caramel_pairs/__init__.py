"""A benchmark and a blind scorer for caramel."""
