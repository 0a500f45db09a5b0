"""HTTP/1.1, to be read from."""
