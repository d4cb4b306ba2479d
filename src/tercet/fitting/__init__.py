"""The spine: a task, candidates, a choice, a model and its report."""
