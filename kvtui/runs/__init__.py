"""What happened: plans, events, the journal, and everything folded from it."""
