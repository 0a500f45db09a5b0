"""Asking an HTTP server for a page, over and over."""
