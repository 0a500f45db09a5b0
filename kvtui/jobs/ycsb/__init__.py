"""The YCSB core workloads, a to f."""
