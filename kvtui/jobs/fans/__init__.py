"""The fan-page job: which pages go together, counted in a store."""
