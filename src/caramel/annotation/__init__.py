"""People who judge: the annotation page, its store, agreement and decisions."""
