"""Making it happen and measuring it."""
