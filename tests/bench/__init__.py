"""Benchmarks: plain scripts that print a table (``make bench``), and the long soak (``make soak``). Never timed tests."""
