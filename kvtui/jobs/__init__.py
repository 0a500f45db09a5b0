"""What is asked of a store: the workloads."""
