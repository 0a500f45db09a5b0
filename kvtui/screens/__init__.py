"""What a person sees: one file a screen, each with its own parts."""
