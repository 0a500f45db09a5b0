"""WiredTiger in the worker process."""
