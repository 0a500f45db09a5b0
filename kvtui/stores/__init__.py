"""Who is asked: the stores, each behind one small contract."""
