"""The commands, one file a group; each is imported only when it is asked for."""
