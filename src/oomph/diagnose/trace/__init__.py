"""From a traced run to answers: what it needs, whether that fits, and where it leaves a real run's path."""
