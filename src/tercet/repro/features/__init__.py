"""Papers of feature vectors: rankers over LETOR-shaped folds, chosen on validation, measured by query."""
