"""The method: trainer, estimators, store, planner and the training loop. Touches no disk."""
